"""The remediator's database: who writes next on SQLite, and which tables there are."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from sqlalchemy import Connection

from fleet import database
from fleet.database import StorageError
from fleet.migrated import Tables, Upgrade
from remediator.journal import line
from remediator.turns import Turns, Unlimited

__all__ = ["Database", "StorageError"]

# The lock is "LIFE" in ASCII. The version that had no migrations had the first revision's tables.
TABLES = Tables("remediator:migrations", "alembic_version", 0x4C494645, ("attempts", "1"))

log = logging.getLogger("remediator")


class Database(database.Database):
    """Transactions on one database, from any thread.

    Raises StorageError, also out of the blocks of ``read`` and ``write``.
    """

    tables: ClassVar[Tables] = TABLES
    _turns: Turns | Unlimited = Unlimited()

    def __init__(self, url: str) -> None:
        """``url`` is SQLAlchemy's; tables are made, or brought up to this version."""
        super().__init__(url)
        if self._engine.dialect.name == "sqlite":
            self._turns = Turns()

    @contextmanager
    def write(self, *, urgent: bool = False) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or not at all.

        An ``urgent`` one goes before all others of this program that wait for their turn.
        """
        with self._turns.turn(urgent=urgent), super().write() as connection:
            yield connection

    def upgraded(self, upgrade: Upgrade) -> None:
        """Tell it in the log."""
        log.info("%s", line(event="database_upgraded", before=upgrade.before, now=upgrade.now))
