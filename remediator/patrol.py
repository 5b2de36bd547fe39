"""Reads every backend's start time again and again, to see who else restarts it.

It reads what a server publishes and asks it nothing else. One remediator of several does so.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import Protocol

from fleet.backend import Backend, Kind
from fleet.fetch import METRICS, Failure, Fetcher
from fleet.reading import Reading
from fleet.settings import Settings
from remediator.case import LAST_SECOND
from remediator.database import StorageError
from remediator.journal import line
from remediator.locks import Locks
from remediator.record import Start, Whose
from remediator.store import Store
from remediator.whose import start

LOCK = "*patrol*"
# With the slash: without it vLLM takes no notice of the filter.
START_TIME = f"{METRICS}/?name%5B%5D=process_start_time_seconds"
READ_SECONDS = 5.0
THREADS = 8
LAST_ATTEMPTS = 5

log = logging.getLogger("remediator")


class Beholder(Protocol):
    """Tells when the process of a backend was started."""

    def started_at(self, backend: Backend) -> datetime | None:
        """When, or None where that could not be read."""
        ...


class Glance:
    """Reads a backend's page once."""

    def started_at(self, backend: Backend) -> datetime | None:
        """When its process was started; None where its page does not say, or cannot be read."""
        with closing(Fetcher(backend, "remediator")) as fetcher:
            page = fetcher.get(START_TIME, timeout=READ_SECONDS)
        started = None if isinstance(page, Failure) else Reading.from_page(page.text).start_time
        if started is None or not 0 <= started < LAST_SECOND:
            return None
        return datetime.fromtimestamp(started, UTC)


class Patrol:
    """Goes round all backends. ``run`` belongs to one thread."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        locks: Locks,
        beholder: Beholder,
        clock: Callable[[], datetime],
    ) -> None:
        self._backends = [b for b in settings.backends if b.kind is Kind.VLLM]
        self._store = store
        self._locks = locks
        self._beholder = beholder
        self._clock = clock

    def run(self, every: float, stopping: threading.Event) -> None:
        """Go round every so many seconds until ``stopping`` is set."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="patrol") as pool:
            while not stopping.wait(every):
                try:
                    if self._locks.take(LOCK):
                        list(pool.map(self.look, self._backends))
                except StorageError as error:
                    log.error("%s", line(event="storage_failed", why=error))  # noqa: TRY400
                except Exception:
                    log.exception("event=patrol_failed")

    def look(self, backend: Backend) -> Start | None:
        """Look at one backend; returns the process if it is one not seen before.

        Raises StorageError.
        """
        started_at = self._beholder.started_at(backend)
        if started_at is None:
            return None
        last = self._store.records.last_start(backend.name)
        attempts = self._store.attempts.newest(LAST_ATTEMPTS, backend.name)
        found = start(backend.name, started_at, last, attempts, self._clock())
        if found is None or not self._store.records.note(found):
            return None
        if found.whose is Whose.FOREIGN:
            log.warning(
                "%s",
                line(event="foreign_restart", backend=backend.name, started_at=found.started_at),
            )
        return found
