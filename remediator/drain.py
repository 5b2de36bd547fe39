"""Asks a backend's gateways to move its streams away before it is restarted, and waits for that.

Never in the way: all gateways together have ``timeout`` seconds, and each has a thread of its own,
for a name that does not resolve cannot be interrupted. What did not work is one sentence.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet.backend import Backend
from remediator.gateway import Gateway, NoAnswer, Said, Traffic

ANSWER_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.5
# Looks in a row without an answer after which a gateway is taken to be gone.
MOST_SILENT_LOOKS = 3

Progress = Callable[[Mapping[str, int | None]], None]


@dataclass(frozen=True)
class Drained:
    """Whether all gateways did as they were asked, one sentence, and the streams still there.

    ``left`` is None where a gateway has not said it.
    """

    ok: bool
    why: str
    left: int | None


class Drainer(Protocol):
    """Keeps requests away from a backend for as long as it is restarted."""

    def drain(self, backend: Backend, progress: Progress | None = None) -> Drained:
        """Move its streams away. Raises nothing, and takes a bounded time.

        ``progress`` is told how many each gateway has there, whenever that changes.
        """
        ...

    def undrain(self, backend: Backend) -> Drained:
        """Send requests there again. Raises nothing, and takes a bounded time."""
        ...


@dataclass(frozen=True)
class _Word:
    """What a gateway's thread tells: the streams there, and in the end whether it went well."""

    gateway: str
    in_flight: int | None
    ok: bool | None = None
    why: str = ""


class _Talk:
    """One gateway's part; ``tell`` takes each word. ``until`` is of the monotonic clock."""

    def __init__(
        self, url: str, gateway: Gateway, until: float, tell: Callable[[_Word], None]
    ) -> None:
        self._url = url
        self._gateway = gateway
        self._until = until
        self._tell = tell

    def drain(self) -> None:
        """Ask it to drain, then look until nothing is left or the time is up."""
        said = self._gateway.drain(self._patience())
        if isinstance(said, NoAnswer):
            self._end(None, why=said.why)
            return
        last, silent = said, 0
        while not last.is_empty:
            if isinstance(said, Said) and said.traffic is Traffic.UP:
                self._end(said.in_flight, why="it sends requests there all the same")
                return
            self._tell(_Word(self._url, last.in_flight))
            time.sleep(min(LOOK_EVERY_SECONDS, self._patience()))
            said = self._gateway.look(self._patience())
            if isinstance(said, Said):
                last, silent = said, 0
                continue
            silent += 1
            if silent == MOST_SILENT_LOOKS:
                self._end(None, why=f"while it drained: {said.why}")
                return
        self._end(0, ok=True)

    def undrain(self) -> None:
        """Ask it to send requests there again."""
        said = self._gateway.undrain(self._patience())
        if isinstance(said, NoAnswer):
            self._end(None, why=said.why)
        elif said.traffic in (Traffic.UP, Traffic.DOWN):
            self._end(said.in_flight, ok=True)
        else:
            self._end(said.in_flight, why=f"it is {said.traffic} all the same")

    def _patience(self) -> float:
        return max(0.0, min(ANSWER_SECONDS, self._until - time.monotonic()))

    def _end(self, in_flight: int | None, *, ok: bool = False, why: str = "") -> None:
        # Once the time is up, that is what there is to say, and not how the last question ended.
        if time.monotonic() < self._until:
            self._tell(_Word(self._url, in_flight, ok, why))


class Gateways:
    """Talks to all gateways of a backend at once. May be used from any thread."""

    def __init__(self, token_file: Path | None, timeout: float) -> None:
        """``timeout``: seconds for all gateways together, asking and waiting."""
        self._token_file = token_file
        self._timeout = timeout

    def drain(self, backend: Backend, progress: Progress | None = None) -> Drained:
        """Move its streams away, and wait until none is left or the time is up.

        ``progress`` is told, in this thread, how many each gateway has there whenever that changes;
        None where it has not said so.
        """
        return self._talk(backend, _Talk.drain, "no stream is left there", progress)

    def undrain(self, backend: Backend) -> Drained:
        """Send requests there again."""
        return self._talk(backend, _Talk.undrain, "requests are sent there again", None)

    def _talk(
        self,
        backend: Backend,
        part: Callable[[_Talk], None],
        well: str,
        progress: Progress | None,
    ) -> Drained:
        if not backend.gateways:
            return Drained(ok=True, why=f"{backend.name} has no gateways", left=0)
        until = time.monotonic() + self._timeout
        words: queue.SimpleQueue[_Word] = queue.SimpleQueue()
        last = {url: _Word(url, None) for url in backend.gateways}
        for url in last:
            gateway = Gateway(url, backend.name, self._token_file)
            talk = _Talk(url, gateway, until, words.put)
            try:
                threading.Thread(target=part, args=(talk,), name="gateway", daemon=True).start()
            except RuntimeError as error:
                words.put(_Word(url, None, ok=False, why=str(error)))
        while any(word.ok is None for word in last.values()):
            try:
                word = words.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            changed = word.in_flight != last[word.gateway].in_flight
            last[word.gateway] = word
            if progress is not None and changed:
                progress({url: word.in_flight for url, word in last.items()})
        return self._summed_up(list(last.values()), well)

    def _summed_up(self, words: Sequence[_Word], well: str) -> Drained:
        left = None
        if all(word.in_flight is not None for word in words):
            left = sum(word.in_flight or 0 for word in words)
        troubles = [f"{word.gateway}: {self._trouble(word)}" for word in words if not word.ok]
        return Drained(ok=not troubles, why="; ".join(troubles) or well, left=left)

    def _trouble(self, word: _Word) -> str:
        if word.ok is not None:
            return word.why
        if word.in_flight is None:
            return f"it did not answer within {self._timeout:g} s"
        return f"{word.in_flight} streams are left after {self._timeout:g} s"
