"""Databases to keep things in: as the ledger's, but with the table of what is kept alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine, event

from gateway.kept import resumptions


class TestedDatabase:
    """Transactions on a database of its own."""

    __test__ = False

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url)
        if self.engine.dialect.name == "sqlite":
            # As the ledger does: wait for the turn at the beginning, not in the middle.
            event.listen(
                self.engine, "connect", lambda own, _: setattr(own, "isolation_level", None)
            )
            event.listen(self.engine, "begin", lambda own: own.exec_driver_sql("BEGIN IMMEDIATE"))
        resumptions.create(self.engine, checkfirst=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            yield connection

    def close(self) -> None:
        self.engine.dispose()


class BrokenDatabase:
    """One that does not answer."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        raise OSError("gone")
        yield

    write = read
