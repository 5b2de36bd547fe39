"""I/O: the thread that brings SQLite's file up to what was written ahead of it.

SQLite itself would do it at a commit, every thousand pages, and whoever waits for that commit waits
for two more syncs and for all of these pages. Commits do not wait for this thread.
"""

import logging
import threading

from gateway.ledger.database import Database, StorageError

EVERY = 2.0
# What is committed meanwhile needs another one: SQLite begins its log anew only where nothing is
# left to do.
MOST_AT_ONCE = 5

log = logging.getLogger("gateway")


class Checkpoints:
    """Made while it is started. On PostgreSQL, which has a process for it, there are none."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-checkpoints", daemon=True)
        self._why = ""

    def start(self) -> None:
        """Begin."""
        if self._database.folder is not None:
            self._thread.start()

    def stop(self) -> None:
        """End after the one that is being made."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def make(self) -> None:
        """Make one now. While it fails, that is told once: SQLite does it itself then, later."""
        try:
            before = self._database.checkpoint()
            for _ in range(MOST_AT_ONCE - 1):
                pages = self._database.checkpoint()
                if pages <= before:
                    break
                before = pages
        except StorageError as error:
            if str(error) != self._why:
                log.warning("event=ledger_not_checkpointed why=%r", str(error))
            self._why = str(error)
        else:
            self._why = ""

    def _run(self) -> None:
        while not self._stopping.wait(EVERY):
            self.make()
