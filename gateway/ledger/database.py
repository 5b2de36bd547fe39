"""I/O: the ledger's database, and what is said when it does not work."""

from contextlib import closing
from typing import ClassVar

from fleet import database
from fleet.database import PRAGMAS
from fleet.migrated import Tables
from gateway.bill import BillError
from gateway.ledger.tables import VERSION_TABLE

# Pages that SQLite writes ahead (64 MiB), until a commit itself brings the file up to them: that is
# where no thread does it (gateway/ledger/checkpoints.py), or none is quick enough.
LONGEST_LOG = 16_384


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
    pragmas: ClassVar[tuple[str, ...]] = (*PRAGMAS, f"wal_autocheckpoint = {LONGEST_LOG}")

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
