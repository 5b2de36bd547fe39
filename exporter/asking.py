"""When and how an idle engine is sent the short request: never one that has anything else to do."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from fleet.answer import Answer, Result, ask
from fleet.backend import Backend, Kind
from fleet.engine import EngineHistory
from fleet.fetch import Fetcher
from fleet.history import History
from fleet.judgement import WAITS_OF_PROOF

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Heard:
    """The end of a short request: of which engine, when (monotonic seconds), and what came."""

    engine: str
    at: float
    answer: Answer


def engines_to_ask(
    history: History, backend: Backend, now: float, every: float | None
) -> list[str]:
    """The engines that are due for a short request: idle, by the look just taken.

    Idle is: nothing running, nothing waiting, and nothing moved for one wait. A new process is
    asked as soon as it is idle; after that at most once in ``every`` seconds.
    """
    cannot_be_asked = (
        every is None
        or backend.kind is not Kind.VLLM
        or history.failure is not None
        or history.dead
        or history.behind_proxy
        # A request might have to wait for somebody who updates the weights.
        or history.may_be_paused
    )
    if cannot_be_asked:
        return []
    return [
        name
        for name, engine in history.engines.items()
        if _is_due(engine, now, every or 0.0, backend.wait)
    ]


def past_proof(backend: Backend) -> float:
    """Seconds after which a request is given up: past all proof, also that of a new process.

    What a request that was withdrawn would have met with proves nothing.
    """
    return backend.warm_up + (WAITS_OF_PROOF + 1) * backend.wait


def _is_due(engine: EngineHistory, now: float, every: float, wait: float) -> bool:
    idle = (
        engine.progress is not None
        and not engine.moved
        and not engine.anything_pending
        and engine.reading.pending_is_readable
        and engine.reading.awake is not False
        # Gauges are written at the end of a step: in a long first one the page still says idle.
        and now - engine.still_since >= wait
    )
    in_flight = engine.asked is not None and engine.asked.in_flight
    recent = engine.last_asked is not None and now - engine.last_asked < every
    return idle and not in_flight and not recent


class Asking:
    """Sends short requests of one backend, each in a thread of its own, and collects their ends.

    A frozen engine never answers, so a poller cannot wait for one. Every request sent has exactly
    one end, whatever happens: one that had none would be silence that nobody is to blame for.
    """

    def __init__(
        self,
        backend: Backend,
        fetchers: Callable[[], Fetcher],
        *,
        patience: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``patience``: seconds after which a request counts as unanswered and is given up."""
        self._backend = backend
        self._fetchers = fetchers
        self._patience = patience
        self._monotonic = monotonic
        self._ended: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._in_flight: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._pooling = False

    def in_flight(self, engine: str) -> bool:
        """Whether a request to this engine is open, or its end has not been collected."""
        return engine in self._in_flight

    def send(self, engine: str, *, several: bool) -> None:
        """Ask one engine; with ``several`` engines the request names it."""
        self._in_flight.add(engine)
        thread = threading.Thread(
            target=self._ask,
            args=(engine, several),
            name=f"ask-{self._backend.name}-{engine}",
            daemon=True,
        )
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        try:
            thread.start()
        except RuntimeError as error:
            self._end(engine, Answer(Result.ERROR, 0.0, f"not sent: {error}"))

    def join(self) -> None:
        """Wait until the open requests have ended; each is given up after ``patience``."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def ended(self) -> list[Heard]:
        """The requests that have ended since the last call."""
        heard = []
        while not self._ended.empty():
            heard.append(self._ended.get())
        self._in_flight.difference_update(end.engine for end in heard)
        return heard

    def _ask(self, engine: str, several: bool) -> None:  # noqa: FBT001 -- a thread's target
        answer = Answer(Result.ERROR, 0.0, "the short request failed here, see the log")
        try:
            fetcher = self._fetchers()
            try:
                answer = ask(
                    fetcher,
                    engine if several else None,
                    timeout=self._patience,
                    pooling=self._pooling,
                )
                self._pooling = answer.pooling or self._pooling
            finally:
                fetcher.close()
        except Exception:
            log.exception("event=ask_failed backend=%s", self._backend.name)
        self._end(engine, answer)

    def _end(self, engine: str, answer: Answer) -> None:
        self._ended.put(Heard(engine, self._monotonic(), answer))
