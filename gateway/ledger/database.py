"""I/O: the ledger's database, and what is said when it does not work."""

from typing import ClassVar

from fleet import database
from fleet.migrated import Tables
from gateway.bill import BillError
from gateway.ledger.tables import VERSION_TABLE


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
