"""The connection to the SQL database, and what is said when it does not work.

SQLite writes ahead and syncs at every commit, so that what was committed survives a power cut,
unless a kind of database has other pragmas.
PostgreSQL reads what was committed when each statement begins: whoever has waited for a row sees
what was done to it. No wait is for ever: a program that stalls within a transaction is cut off.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.sql.dml import UpdateBase

from fleet.migrated import Tables, TooNewError, Upgrade
from fleet.prepared import Prepared

BUSY_SECONDS = 5.0
LOOK_SECONDS = 0.01
NO_URL = "is not an SQLAlchemy URL"
PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")
BEGIN = "lifeguard_begin"
# PostgreSQL's own names. Seconds to connect, and milliseconds for all the rest: until a connection
# whose other end is silent is given up, for a lock, and for a transaction in which nothing is done.
CONNECT = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
TIMEOUTS = {"lock_timeout": 5_000, "idle_in_transaction_session_timeout": 10_000}


class StorageError(Exception):
    """The database does not do what was asked; the text is one sentence without its secrets."""


class Database:
    """Transactions on one database, from any thread.

    Raises ``error``, a StorageError, also out of the blocks of ``read`` and ``write``.
    """

    error: ClassVar[type[StorageError]] = StorageError
    forgotten: ClassVar[str] = "what was done"
    tables: ClassVar[Tables]
    pragmas: ClassVar[Sequence[str]] = PRAGMAS

    def __init__(self, url: str) -> None:
        """``url`` is SQLAlchemy's; tables are made, or brought up to this version."""
        self._prepared: list[Prepared] = []
        with self._told():
            self._engine = self._opened(url)
            # SQLite then waits for its turn at the beginning, not in the middle.
            self._writing = self._engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})
        try:
            self._upgrade()
        except StorageError:
            self.close()
            raise

    @classmethod
    def checked(cls, url: str) -> URL:
        """What the URL names. Raises ``error`` where that can be none; opens nothing."""
        try:
            parts = make_url(url)
        except (ArgumentError, ValueError):  # of a port that is no number, or taken for one
            raise cls.error(NO_URL) from None
        if parts.get_backend_name() == "sqlite":
            if parts.database in (None, "", ":memory:"):
                raise cls.error(f"an SQLite database in memory would forget {cls.forgotten}")
            return parts
        if "@" in (parts.host or ""):  # the rest of a password, not to be told as a host's name
            raise cls.error(f"{NO_URL}: write an @ of the password as %40")
        if parts.get_backend_name() != "postgresql":
            kind = parts.drivername
            raise cls.error(f"is of kind {kind}; sqlite and postgresql+psycopg are known")
        return parts

    @property
    def kind(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._engine.dialect.name

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
        with self._told(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or not at all."""
        with self._told(), self._writing.begin() as connection:
            yield connection

    def prepared(self, statement: UpdateBase, columns: Sequence[str] | None = None) -> Prepared:
        """A statement that is executed so often that it has a short way of its own.

        ``columns``: those of an INSERT.
        """
        prepared = Prepared(self._engine, statement, self._failure, columns)
        self._prepared.append(prepared)
        return prepared

    def close(self) -> None:
        """Close all connections."""
        for prepared in self._prepared:
            prepared.close()
        self._engine.dispose()

    def upgraded(self, upgrade: Upgrade) -> None:
        """The tables were made or changed; for whoever wants to tell it."""

    def _upgrade(self) -> None:
        done = None
        try:
            with self.read() as connection:
                is_current = self.tables.is_current(connection)
            if not is_current:
                with self.write() as connection:
                    done = self.tables.upgrade(connection)
        except TooNewError as error:
            raise self.error(str(error)) from None
        if done is not None:
            self.upgraded(done)

    def _opened(self, url: str) -> Engine:
        parts = self.checked(url)
        if parts.get_backend_name() == "sqlite":
            return _file_engine(parts, self.pragmas)
        return _server_engine(parts)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLAlchemy raises, in one sentence: its own texts show the query and its values."""
        try:
            yield
        except ArgumentError:
            raise self.error(NO_URL) from None
        except ImportError as error:
            raise self.error(f"its driver is not installed: {error}") from None
        except SQLAlchemyError as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StorageError:
        of_driver = getattr(error, "orig", None) if isinstance(error, SQLAlchemyError) else error
        text = str(of_driver or "") or type(error).__name__
        first = text.splitlines()[0]
        return self.error(f"the database does not answer as it should: {first}")


def _file_engine(url: URL, pragmas: Sequence[str]) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", partial(_configure, pragmas))
    event.listen(engine, "begin", _begin)
    return engine


def _server_engine(url: URL) -> Engine:
    missing = {name: value for name, value in CONNECT.items() if name not in url.query}
    engine = create_engine(
        url, pool_pre_ping=True, isolation_level="READ COMMITTED", connect_args=missing
    )
    event.listen(engine, "connect", _limit)
    return engine


def _limit(connection: Any, _record: object) -> None:  # noqa: ANN401 -- the driver's own
    with connection.cursor() as cursor:
        for name, milliseconds in TIMEOUTS.items():
            cursor.execute(f"SET SESSION {name} = {milliseconds}")
    connection.commit()


def _configure(
    pragmas: Sequence[str],
    connection: Any,  # noqa: ANN401 -- the driver's own
    _record: object,
) -> None:
    connection.isolation_level = None  # the driver begins no transactions; _begin does
    deadline = time.monotonic() + BUSY_SECONDS
    for pragma in pragmas:
        _set(connection, pragma, deadline)


def _set(connection: sqlite3.Connection, pragma: str, deadline: float) -> None:
    """To begin to write ahead, SQLite itself does not wait for who does so at that moment."""
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)
        else:
            return


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))
