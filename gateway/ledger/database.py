"""I/O: the ledger's database, and what is said when it does not work.

On SQLite a commit outlives the process; a power cut only once it is synced, which is a step apart:
a client's first token waits for a commit, and is not to wait for the disk.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from sqlalchemy import Connection

from fleet import database
from fleet.migrated import Tables
from gateway.bill import BillError
from gateway.ledger.tables import VERSION_TABLE

# Pages that SQLite writes ahead (64 MiB), until a commit itself brings the file up to them: that is
# where no thread does it (gateway/ledger/upkeep.py), or none is quick enough.
LONGEST_LOG = 16_384
PRAGMAS = (
    *database.PRAGMAS,
    "synchronous = NORMAL",
    f"wal_autocheckpoint = {LONGEST_LOG}",
)


class StorageError(database.StorageError, BillError):
    """The database does not do what was asked; the text is one sentence without its secrets."""


class Database(database.Database):
    """Transactions on the ledger, from any thread.

    Raises StorageError, also out of the blocks of ``read`` and ``write``.
    """

    error: ClassVar[type[database.StorageError]] = StorageError
    forgotten: ClassVar[str] = "the bill"
    # The lock is "BILL" in ASCII.
    tables: ClassVar[Tables] = Tables("gateway.ledger:migrations", VERSION_TABLE, 0x42494C4C)
    pragmas: ClassVar[tuple[str, ...]] = PRAGMAS
    _is_synced = True

    def __init__(self, url: str) -> None:
        """As every database."""
        self._syncing = threading.Lock()
        super().__init__(url)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or not at all."""
        with super().write() as connection:
            yield connection
        self.committed()

    def committed(self) -> None:
        """Something was, and is still to be synced."""
        self._is_synced = False

    def sync(self) -> None:
        """Let what has been committed survive a power cut. PostgreSQL sees to that itself."""
        with self._syncing:  # who finds it synced must not be ahead of who does it
            if self._is_synced or self.folder is None:
                return
            self._is_synced = True
            try:
                _sync(self._log)
            except StorageError:
                self._is_synced = False
                raise

    @cached_property
    def _log(self) -> str:
        query = "SELECT file FROM pragma_database_list WHERE name = 'main'"
        with self.read() as connection:
            return f"{connection.exec_driver_sql(query).scalar_one()}-wal"

    def checkpoint(self) -> int:
        """Bring SQLite's file up to what was written ahead of it, without holding up who writes.

        Returns how many pages there are ahead of it, brought there or not; -1 while another one
        does it.
        """
        try:
            with self._told(), closing(self._engine.raw_connection()) as connection:
                cursor = connection.cursor()
                cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
                _, pages, _ = cursor.fetchone() or (0, 0, 0)
                cursor.close()
                return int(pages)
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise self._failure(error) from error


class SyncedDatabase(Database):
    """Syncs after each commit: for what is rare, and for whom no thread does it."""

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Committed and synced at the end of the block; nobody else who writes waits for that."""
        with super().write() as connection:
            yield connection
        self.sync()


def _sync(path: str) -> None:
    """Raises StorageError."""
    try:
        with Path(path).open("rb") as log:
            # macOS has no fdatasync.
            getattr(os, "fdatasync", os.fsync)(log.fileno())
    except FileNotFoundError:  # where SQLite cannot write ahead, its commits sync by themselves
        return
    except OSError as error:
        raise StorageError(f"{path}: cannot be synced: {error.strerror}") from error
