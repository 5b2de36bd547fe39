"""What the database remembers of a backend: whether it was given up, and who started it when."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from remediator import attempts, tables
from remediator.database import Database
from remediator.record import Record, Start, Whose


class Records:
    """Methods may be called from any thread; each is one transaction and raises StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, backend: str) -> Record:
        """What is remembered of a backend."""
        with self._database.read() as connection:
            return record(connection, backend)

    def reset(self, backend: str, by: str, now: datetime) -> Record:
        """Begin anew with a backend: restarts before now do not count as ones that did not help.

        Returns what was remembered before.
        """
        with self._database.write() as connection:
            before = record(connection, backend)
            _row_of(connection, backend)
            table = tables.backends
            connection.execute(
                update(table)
                .where(table.c.name == backend)
                .values(given_up_at=None, given_up_why="", reset_at=now, reset_by=by)
            )
        return before

    def note(self, start: Start) -> bool:
        """Remember a process; tells whether it was new to us."""
        values = {
            "backend": start.backend,
            "started_at": start.started_at,
            "seen_at": start.seen_at,
            "whose": start.whose,
            "attempt_id": start.attempt_id,
        }
        with self._database.write() as connection:
            try:
                with connection.begin_nested():
                    connection.execute(insert(tables.starts).values(**values))
            except IntegrityError:
                return False
        return True

    def last_start(self, backend: str) -> Start | None:
        """The process of a backend that was seen last."""
        table = tables.starts
        with self._database.read() as connection:
            row = connection.execute(
                select(table)
                .where(table.c.backend == backend)
                .order_by(table.c.seen_at.desc(), table.c.id.desc())
                .limit(1)
            ).first()
        return None if row is None else _start(row)

    def newest_starts(self, most: int, backend: str) -> tuple[Start, ...]:
        """The processes of a backend, the newest first."""
        table = tables.starts
        with self._database.read() as connection:
            rows = connection.execute(
                select(table)
                .where(table.c.backend == backend)
                .order_by(table.c.id.desc())
                .limit(most)
            )
            return tuple(_start(row) for row in rows)

    def foreign_restarts(self) -> dict[str, int]:
        """For each backend that was restarted by somebody else, how often."""
        table = tables.starts
        query = (
            select(table.c.backend, func.count())
            .where(table.c.whose == Whose.FOREIGN)
            .group_by(table.c.backend)
        )
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def given_up(self) -> frozenset[str]:
        """The backends that are left to a person until they say ``reset``."""
        table = tables.backends
        with self._database.read() as connection:
            return frozenset(
                connection.scalars(select(table.c.name).where(table.c.given_up_at.is_not(None)))
            )


def record(connection: Connection, backend: str) -> Record:
    """What is remembered of a backend."""
    table, starts = tables.backends, tables.starts
    row = connection.execute(select(table).where(table.c.name == backend)).first()
    last_foreign = connection.scalar(
        select(func.max(starts.c.started_at, type_=tables.Utc())).where(
            starts.c.backend == backend, starts.c.whose == Whose.FOREIGN
        )
    )
    loads = attempts.loads(connection, backend)
    if row is None:
        return Record(last_foreign=last_foreign, loads=loads)
    return Record(
        given_up_at=row.given_up_at,
        given_up_why=row.given_up_why,
        reset_at=row.reset_at,
        reset_by=row.reset_by,
        last_foreign=last_foreign,
        loads=loads,
    )


def give_up(connection: Connection, backend: str, why: str, now: datetime) -> None:
    """Leave a backend to a person, if it is not left to them already."""
    _row_of(connection, backend)
    table = tables.backends
    connection.execute(
        update(table)
        .where(table.c.name == backend, table.c.given_up_at.is_(None))
        .values(given_up_at=now, given_up_why=why)
    )


def _row_of(connection: Connection, backend: str) -> None:
    """See to it that the backend has a row."""
    try:
        with connection.begin_nested():
            connection.execute(insert(tables.backends).values(name=backend))
    except IntegrityError:
        return


def _start(row: Row[Any]) -> Start:
    return Start(row.backend, row.started_at, row.seen_at, row.whose, row.attempt_id)
