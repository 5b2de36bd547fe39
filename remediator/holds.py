"""The holds in the database: what people and batch jobs do not want restarted, and until when."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, insert, or_, select, update

from remediator import tables
from remediator.database import Database
from remediator.record import EVERY_BACKEND, HoldBack


class Holds:
    """Methods may be called from any thread; each is one transaction and raises StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, backend: str, until: datetime, by: str, why: str, now: datetime) -> HoldBack:
        """Hold a backend (or EVERY_BACKEND) until a time, which has to be in the future."""
        values = {
            "backend": backend,
            "since": now,
            "until": until,
            "held_by": by,
            "why": why,
        }
        table = tables.holds
        with self._database.write() as connection:
            result = connection.execute(insert(table).values(**values))
            (number,) = result.inserted_primary_key or (0,)
            return _hold(connection.execute(select(table).where(table.c.id == number)).one())

    def release(self, backend: str, by: str, now: datetime) -> tuple[HoldBack, ...]:
        """Release every hold in force that names this backend; returns them as they were."""
        table = tables.holds
        return self._release(table.c.backend == backend, by, now)

    def release_one(self, number: int, by: str, now: datetime) -> tuple[HoldBack, ...]:
        """Release the hold of this id, if it is in force; returns it as it was."""
        return self._release(tables.holds.c.id == number, by, now)

    def in_force(self, now: datetime) -> tuple[HoldBack, ...]:
        """Every hold that holds now, the first to end first."""
        table = tables.holds
        with self._database.read() as connection:
            rows = connection.execute(select(table).where(_in_force(now)).order_by(table.c.until))
            return tuple(_hold(row) for row in rows)

    def _release(self, which: ColumnElement[bool], by: str, now: datetime) -> tuple[HoldBack, ...]:
        table = tables.holds
        with self._database.write() as connection:
            rows = connection.execute(select(table).where(which, _in_force(now)))
            found = tuple(_hold(row) for row in rows)
            connection.execute(
                update(table)
                .where(table.c.id.in_([hold.id for hold in found]))
                .values(released_at=now, released_by=by)
            )
        return found


def holding(connection: Connection, backend: str, now: datetime) -> tuple[HoldBack, ...]:
    """The holds in force for a backend."""
    table = tables.holds
    rows = connection.execute(
        select(table).where(
            or_(table.c.backend == backend, table.c.backend == EVERY_BACKEND), _in_force(now)
        )
    )
    return tuple(_hold(row) for row in rows)


def _in_force(now: datetime) -> ColumnElement[bool]:
    table = tables.holds
    return table.c.released_at.is_(None) & (table.c.until > now)


def _hold(row: Row[Any]) -> HoldBack:
    return HoldBack(**row._mapping)  # noqa: SLF001 -- public in SQLAlchemy, in spite of its name
