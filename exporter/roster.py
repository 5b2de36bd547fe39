"""The pollers that run: one a backend, in step with who is to be watched."""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from exporter.memory import Memory
from exporter.poller import Poller
from fleet.backend import Backend
from fleet.settings import ExporterSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Running:
    """A poller, the thread it runs in, and what ends that thread."""

    backend: Backend
    poller: Poller
    thread: threading.Thread
    stop: threading.Event


class Roster:
    """Who is watched. Belongs to one thread; others may ask ``not_running``.

    Invariant: a backend that is watched the same way before and after ``apply`` keeps its poller,
    and with it all that is remembered of it.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._settings: ExporterSettings | None = None
        self._running: dict[str, _Running] = {}
        self._ending: list[threading.Thread] = []

    @property
    def not_running(self) -> tuple[str, ...]:
        """The names of the threads that should run and do not."""
        return tuple(
            running.thread.name
            for running in self._running.values()
            if not running.thread.is_alive()
        )

    def apply(self, backends: Sequence[Backend], settings: ExporterSettings) -> None:
        """Watch these and no others, and do so with these settings.

        New pollers are spread over the interval, so that reads do not come in bursts. One whose
        settings changed goes on in a thread of its own age, with all it remembers.
        """
        kept = {
            backend.name: running
            for backend in backends
            if (running := self._running.get(backend.name)) is not None
            and _watched_alike(running.backend, backend)
            and running.thread.is_alive()
        }
        on_with = kept if settings == self._settings else {}
        for name, running in self._running.items():
            if name not in on_with:
                running.stop.set()
                self._ending.append(running.thread)
        ours = [kept[b.name].backend if b.name in kept else b for b in backends]
        # Before the new ones start: what an old poller still says of its backend is not wanted.
        self._memory.expect(ours)
        starting = [backend for backend in ours if backend.name not in on_with]
        started = {
            backend.name: self._start(
                backend, kept.get(backend.name), settings, settings.interval * i / len(starting)
            )
            for i, backend in enumerate(starting)
        }
        before = self._running
        self._running = {b.name: on_with.get(b.name) or started[b.name] for b in ours}
        self._settings = settings
        self._ending = [thread for thread in self._ending if thread.is_alive()]
        _tell(before, self._running)

    def close(self, timeout: float) -> None:
        """End all pollers and wait for their threads, for ``timeout`` seconds in all."""
        for running in self._running.values():
            running.stop.set()
        deadline = time.monotonic() + timeout
        for thread in (*self._ending, *(running.thread for running in self._running.values())):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _start(
        self, backend: Backend, old: _Running | None, settings: ExporterSettings, after: float
    ) -> _Running:
        stop = threading.Event()
        poller = old.poller if old else Poller(backend, settings, self._memory)
        thread = threading.Thread(
            target=_run,
            args=(poller, settings, stop, old.thread if old else None, after),
            name=f"poll-{backend.name}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:
            # It is named by /-/healthy and tried again with the next change.
            log.error("event=poll_not_started backend=%s why=%s", backend.name, error)  # noqa: TRY400
        return _Running(backend, poller, thread, stop)


def _run(
    poller: Poller,
    settings: ExporterSettings,
    stop: threading.Event,
    before: threading.Thread | None,
    first_after: float,
) -> None:
    if before is not None:
        # A poller belongs to one thread at a time.
        before.join()
        poller.adopt(settings)
    poller.run(stop, first_after=first_after)


def _watched_alike(one: Backend, other: Backend) -> bool:
    """Whether they differ at most in what the remediator alone goes by."""
    return replace(one, restart=None, load_time=0.0) == replace(other, restart=None, load_time=0.0)


def _tell(before: dict[str, _Running], now: dict[str, _Running]) -> None:
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
