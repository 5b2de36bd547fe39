"""Looks at one backend: reads, remembers, judges, and asks an idle engine where that is due."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from exporter.asking import Asking, engines_to_ask, past_proof
from exporter.memory import OK, READ_RESULTS, Memory, Snapshot
from fleet.answer import MODELS, Answer, Result, ask
from fleet.backend import Backend, Kind
from fleet.fetch import Failure, Fetcher, Trouble
from fleet.history import History, Look, after, asking, heard, told_of_pause
from fleet.judgement import judge
from fleet.read import Reader
from fleet.reading import Reading
from fleet.settings import ExporterSettings
from fleet.witness import Witness

log = logging.getLogger(__name__)


class Poller:
    """One backend's polls. Belongs to one thread at a time."""

    def __init__(  # noqa: PLR0913 -- all but three have defaults that serve the exporter
        self,
        backend: Backend,
        settings: ExporterSettings,
        memory: Memory,
        *,
        history: History | None = None,
        patience: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``history`` goes on from an earlier watch.

        ``patience``: seconds for which a short request stays open; None: past the moment of proof,
        so that the verdict falls while it still waits.
        """
        self._backend = backend
        self._settings = settings
        self._memory = memory
        self._monotonic = monotonic
        self._wall = wall
        self._fetcher = Fetcher(backend, "exporter")
        self._reader = Reader(self._fetcher)
        self._witness = Witness(self._fetcher)
        self._asking = Asking(
            backend,
            lambda: Fetcher(backend, "exporter"),
            patience=past_proof(backend) if patience is None else patience,
            monotonic=monotonic,
        )
        self._history = History() if history is None else history
        self._last: Snapshot | None = None
        self._reads: dict[str, int] = dict.fromkeys(READ_RESULTS, 0)
        self._answers: dict[Result, int] = dict.fromkeys(Result, 0)

    def adopt(self, settings: ExporterSettings) -> None:
        """Go by other settings from the next poll on, with all that is remembered."""
        self._settings = settings

    def poll(self, *, late_seconds: float = 0.0) -> Snapshot:
        """Look once, remember, judge, and ask an idle engine if that is due."""
        self._hear()
        look = self._look()
        restarts = self._history.restarts
        self._history = after(
            self._history,
            look,
            interval=self._settings.interval,
            warm_up=self._backend.warm_up,
        )
        if self._history.restarts > restarts or self._history.outage:
            self._reader.forget()
            self._witness.forget()
        if self._says_nothing_moves():
            self._ask_the_witness()
        self._ask()
        return self._remember(look, late_seconds)

    def settle(self) -> Snapshot | None:
        """Wait until no short request is open, and judge again; None if nothing was polled yet."""
        if self._last is None:
            return None
        self._asking.join()
        self._hear()
        judgement = judge(self._history, self._backend)
        return replace(self._last, history=self._history, judgement=judgement)

    def ask_now(self, engine: str, *, timeout: float) -> Answer:
        """Ask one engine for one token and wait for it, whatever its page says."""
        several = len(self._history.engines) > 1
        return ask(self._fetcher, engine if several else None, timeout=timeout)

    def close(self) -> None:
        """Close the connections."""
        self._fetcher.close()

    def _hear(self) -> None:
        for end in self._asking.ended():
            self._history = heard(self._history, end.engine, end.answer, end.at)
            self._answers[end.answer.result] += 1

    def _look(self) -> Look:
        began = self._monotonic()
        timeout = self._settings.timeout
        result: Reading | Failure
        if self._backend.kind is Kind.PROXY:
            answer = self._fetcher.get(MODELS, timeout=timeout)
            result = answer if isinstance(answer, Failure) else Reading()
        else:
            result = self._reader.read(timeout=timeout)
        return Look(began, self._monotonic(), result)

    def _says_nothing_moves(self) -> bool:
        """Whether the witness is worth asking: a server whose engines move is left in peace."""
        if self._backend.kind is Kind.PROXY:
            return False
        failure = self._history.failure
        if failure is not None:
            return failure.kind is Trouble.HTTP_ERROR
        return not self._history.moved

    def _ask_the_witness(self) -> None:
        timeout = self._settings.timeout
        self._history = replace(self._history, dead=self._witness.dead(timeout=timeout))
        if self._history.failure is None and not self._history.dead:
            paused = self._witness.paused(timeout=timeout)
            self._history = told_of_pause(self._history, paused=paused, at=self._monotonic())

    def _ask(self) -> None:
        now = self._monotonic()
        due = engines_to_ask(self._history, self._backend, now, self._settings.answer_every)
        for engine in due:
            # One that was sent to an earlier process may still be open.
            if not self._asking.in_flight(engine):
                self._history = asking(self._history, engine, now)
                self._asking.send(engine, several=len(self._history.engines) > 1)

    def _remember(self, look: Look, late_seconds: float) -> Snapshot:
        judgement = judge(self._history, self._backend)
        last = self._last
        unchanged = last is not None and last.judgement.backend.state is judgement.backend.state
        if not unchanged:
            log.info(
                "event=state backend=%s state=%s why=%s",
                self._backend.name,
                judgement.backend.state,
                # Quoted: parts of it come from the server.
                json.dumps(judgement.backend.why, ensure_ascii=False),
            )
        self._reads[look.result.kind if isinstance(look.result, Failure) else OK] += 1
        snapshot = Snapshot(
            backend=self._backend,
            history=self._history,
            judgement=judgement,
            polled_at=self._monotonic(),
            since=last.since if last is not None and unchanged else look.ended,
            since_wall=last.since_wall if last is not None and unchanged else self._wall(),
            read_seconds=look.ended - look.began,
            late_seconds=late_seconds,
            reads=dict(self._reads),
            answers=dict(self._answers),
        )
        self._last = snapshot
        self._memory.put(snapshot)
        return snapshot
