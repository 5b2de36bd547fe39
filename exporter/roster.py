"""Who is watched: a poller for each backend, in step with who is to be watched."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from exporter.memory import Memory
from exporter.poller import Poller
from exporter.schedule import NAME, Schedule, Turn
from fleet.backend import Backend
from fleet.settings import ExporterSettings

log = logging.getLogger(__name__)

# Polls that fall due in the same slot are made one after the other: code that has just run runs
# three times as fast as code that the processor's caches have forgotten.
SLOT_SECONDS = 0.25


@dataclass(frozen=True)
class _Watched:
    """A backend, its poller and the turn in which that polls."""

    backend: Backend
    poller: Poller
    turn: Turn


class Roster:
    """Who is watched. Belongs to one thread; others may ask ``not_running``.

    Invariant: a backend that is watched the same way before and after ``apply`` keeps its poller,
    and with it all that is remembered of it.
    """

    def __init__(self, memory: Memory, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._memory = memory
        self._monotonic = monotonic
        self._schedule = Schedule(monotonic=monotonic)
        self._settings: ExporterSettings | None = None
        self._watched: dict[str, _Watched] = {}

    @property
    def not_running(self) -> tuple[str, ...]:
        """The names of the threads that should run and do not."""
        return (NAME,) if self._watched and not self._schedule.is_running else ()

    def apply(self, backends: Sequence[Backend], settings: ExporterSettings) -> None:
        """Watch these and no others, and do so with these settings.

        New pollers are spread over the interval, so that reads do not come in bursts. One whose
        settings changed goes on in another turn, with all it remembers.
        """
        kept = {
            backend.name: watched
            for backend in backends
            if (watched := self._watched.get(backend.name)) is not None
            and _watched_alike(watched.backend, backend)
        }
        on_with = kept if settings == self._settings and self._schedule.is_running else {}
        for name, watched in self._watched.items():
            if name not in on_with:
                self._schedule.remove(watched.turn)
        ours = [kept[b.name].backend if b.name in kept else b for b in backends]
        # Before the new ones start: what an old poller still says of its backend is not wanted.
        self._memory.expect(ours)
        if not self._schedule.is_running:
            self._schedule = Schedule(monotonic=self._monotonic)
            self._schedule.start()
        starting = [backend for backend in ours if backend.name not in on_with]
        started = {
            backend.name: self._start(
                backend,
                kept.get(backend.name),
                settings,
                _slot(settings.interval * i / len(starting)),
            )
            for i, backend in enumerate(starting)
        }
        before = self._watched
        self._watched = {b.name: on_with.get(b.name) or started[b.name] for b in ours}
        self._settings = settings
        _tell(before, self._watched)

    def close(self, timeout: float) -> None:
        """End all polls and wait for those under way, for ``timeout`` seconds in all."""
        self._schedule.close(timeout)

    def _start(
        self, backend: Backend, old: _Watched | None, settings: ExporterSettings, after: float
    ) -> _Watched:
        poller = old.poller if old else Poller(backend, settings, self._memory)

        def poll(late_seconds: float) -> None:
            poller.adopt(settings)
            poller.poll(late_seconds=late_seconds)

        turn = Turn(backend.name, poll, settings.interval, self._monotonic() + after)
        if old is not None:
            # A poller belongs to one thread at a time, also where an old turn has not ended yet.
            turn.lock = old.turn.lock
        self._schedule.add(turn)
        return _Watched(backend, poller, turn)


def _slot(seconds: float) -> float:
    return math.floor(seconds / SLOT_SECONDS) * SLOT_SECONDS


def _watched_alike(one: Backend, other: Backend) -> bool:
    """Whether they differ at most in what the remediator alone goes by."""
    return replace(one, restart=None, load_time=0.0) == replace(other, restart=None, load_time=0.0)


def _tell(before: dict[str, _Watched], now: dict[str, _Watched]) -> None:
    added = [name for name in now if name not in before]
    removed = [name for name in before if name not in now]
    changed = [
        name for name in now if name in before and now[name].poller is not before[name].poller
    ]
    if added or removed or changed:
        log.info(
            "event=watching backends=%d added=%s removed=%s changed=%s",
            len(now),
            ",".join(added),
            ",".join(removed),
            ",".join(changed),
        )
