"""The connection to the SQL database, and what is said when it does not work.

SQLite writes ahead and syncs at every commit, so that what was committed survives a power cut.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from remediator.tables import metadata
from remediator.turns import Turns, Unlimited

BUSY_SECONDS = 5.0
PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")
BEGIN = "lifeguard_begin"


class StorageError(Exception):
    """The database does not do what was asked; the text is one sentence without its secrets."""


class Database:
    """Transactions on one database, from any thread.

    Raises StorageError, also out of the blocks of ``read`` and ``write``.
    """

    def __init__(self, url: str) -> None:
        """``url`` is SQLAlchemy's; tables that are missing are made."""
        with _told():
            self._engine = _engine(url)
            self._turns: Turns | Unlimited = (
                Turns() if self._engine.dialect.name == "sqlite" else Unlimited()
            )
            # SQLite then waits for its turn at the beginning, not in the middle.
            self._writing = self._engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})
            metadata.create_all(self._engine)

    @property
    def folder(self) -> Path | None:
        """Where the database's file stands; None where it is not a file."""
        url = self._engine.url
        if url.get_backend_name() != "sqlite" or not url.database:
            return None
        return Path(url.database).parent

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with _told(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self, *, urgent: bool = False) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or not at all.

        An ``urgent`` one goes before all others of this program that wait for their turn.
        """
        with _told(), self._turns.turn(urgent=urgent), self._writing.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _engine(url: str) -> Engine:
    parts = make_url(url)
    if parts.get_backend_name() != "sqlite":
        return create_engine(parts, pool_pre_ping=True)
    if parts.database in (None, "", ":memory:"):
        raise StorageError("an SQLite database in memory would forget what was done")
    engine = create_engine(parts, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: Any, _record: object) -> None:  # noqa: ANN401 -- the driver's own
    connection.isolation_level = None  # the driver begins no transactions; _begin does
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))


@contextmanager
def _told() -> Iterator[None]:
    """What SQLAlchemy raises, in one sentence: its own texts show the query and its values."""
    try:
        yield
    except ArgumentError:
        raise StorageError("is not an SQLAlchemy URL of a kind of database known here") from None
    except ImportError as error:
        raise StorageError(f"its driver is not installed: {error}") from None
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or type(error).__name__
        first = str(cause).splitlines()[0]
        raise StorageError(f"the database does not answer as it should: {first}") from error
