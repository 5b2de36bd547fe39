"""The attempts in the database: what was done to a server, written down before it is done."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from fleet.reading import Reading
from fleet.settings import Mode
from remediator import tables
from remediator.backoff import LOADS_KEPT
from remediator.database import Database
from remediator.incident import UNDER_WAY, Attempt, AttemptState, Incident, ShadowOutcome

# Whenever they were made: what tells how many in a row did not help.
LAST_OF_BACKEND = 20


class UnderWayError(Exception):
    """An attempt on this backend has not ended, so none is begun."""


class TakenOverError(Exception):
    """An attempt is not in the state any more in which it was read: another remediator has it."""


class Attempts:
    """Methods may be called from any thread; each is one transaction and raises StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def advance(
        self, attempt: Attempt, state: AttemptState, now: datetime, **values: object
    ) -> Attempt:
        """Write down that an attempt has come to ``state`` now, and the other columns given.

        Returns the attempt anew. Raises TakenOverError, and writes nothing, where somebody else has
        taken it a step further since it was read.
        """
        times = {AttemptState.ACTING: "acting_at", AttemptState.STARTING: "starting_at"}
        values[times.get(state, "ended_at")] = now
        table = tables.attempts
        query = update(table).where(table.c.id == attempt.id, table.c.state == attempt.state)
        with self._database.write() as connection:
            if connection.execute(query.values(state=state, **values)).rowcount != 1:
                raise TakenOverError(f"attempt {attempt.id} is not {attempt.state} any more")
            return _attempt(connection.execute(select(table).where(table.c.id == attempt.id)).one())

    def tell(self, attempt: Attempt, **values: object) -> None:
        """Write down the columns given, whatever state the attempt has come to."""
        table = tables.attempts
        with self._database.write() as connection:
            connection.execute(update(table).where(table.c.id == attempt.id).values(**values))

    def attempt(self, number: int) -> Attempt:
        """The attempt of this id."""
        found = self.find(number)
        if found is None:
            raise LookupError(number)
        return found

    def find(self, number: int) -> Attempt | None:
        """The attempt of this id, or None."""
        with self._database.read() as connection:
            table = tables.attempts
            row = connection.execute(select(table).where(table.c.id == number)).first()
            return None if row is None else _attempt(row)

    def under_way(self) -> tuple[Attempt, ...]:
        """The attempts that have not ended."""
        table = tables.attempts
        return self._attempts(select(table).where(table.c.state.in_(UNDER_WAY)))

    def newest(self, most: int, backend: str | None = None) -> tuple[Attempt, ...]:
        """The newest attempts, newest first; on one backend, or on all."""
        table = tables.attempts
        query = select(table).order_by(table.c.id.desc()).limit(most)
        return self._attempts(query if backend is None else query.where(table.c.backend == backend))

    def in_shadow(self, since: datetime) -> tuple[Attempt, ...]:
        """The restarts since then that were not made, because the mode was shadow; oldest first."""
        table = tables.attempts
        return self._attempts(
            select(table)
            .where(table.c.mode == Mode.SHADOW, table.c.planned_at >= since)
            .order_by(table.c.id)
        )

    def counts(self, mode: Mode) -> dict[tuple[str, AttemptState], int]:
        """How many attempts of this mode there are, by backend and state."""
        table = tables.attempts
        query = (
            select(table.c.backend, table.c.state, func.count())
            .where(table.c.mode == mode)
            .group_by(table.c.backend, table.c.state)
        )
        with self._database.read() as connection:
            return {(row[0], row[1]): row[2] for row in connection.execute(query)}

    def shadow_outcomes(self) -> dict[ShadowOutcome, int]:
        """How many restarts that were not made came to each outcome."""
        outcome = tables.attempts.c.shadow_outcome
        query = select(outcome, func.count()).where(outcome.is_not(None)).group_by(outcome)
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def restarts(self) -> dict[str, tuple[int, datetime]]:
        """For each backend, how many restarts were begun, and when the last was."""
        table = tables.attempts
        query = (
            select(table.c.backend, func.count(), func.max(table.c.acting_at, type_=tables.Utc()))
            .where(table.c.acting_at.is_not(None))
            .group_by(table.c.backend)
        )
        with self._database.read() as connection:
            return {row[0]: (row[1], row[2]) for row in connection.execute(query)}

    def _attempts(self, query: Select[Any]) -> tuple[Attempt, ...]:
        with self._database.read() as connection:
            return tuple(_attempt(row) for row in connection.execute(query))


def plan(
    connection: Connection, incident: Incident, mode: Mode, before: Reading | None, now: datetime
) -> Attempt:
    """Write down an attempt before anything is done.

    Raises UnderWayError where another attempt on this backend has not ended.
    """
    values = {
        "incident_id": incident.id,
        "backend": incident.backend,
        "engine": incident.engine,
        "mode": mode,
        "state": AttemptState.PLANNED,
        "planned_at": now,
        "before": before,
    }
    try:
        # The savepoint keeps the rest of the transaction where the insertion is refused.
        with connection.begin_nested():
            result = connection.execute(insert(tables.attempts).values(**values))
    except IntegrityError:
        raise UnderWayError(f"an attempt on {incident.backend} is under way") from None
    table = tables.attempts
    (number,) = result.inserted_primary_key or (0,)
    return _attempt(connection.execute(select(table).where(table.c.id == number)).one())


def bearing_on(connection: Connection, incident: Incident, since: datetime) -> tuple[Attempt, ...]:
    """The attempts that a decision has to look at.

    Those of the incident, those under way, those of any backend that did anything at or after
    ``since`` or the beginning of the incident's alert, and the last of the backend.
    """
    table = tables.attempts
    since = min(since, incident.starts_at)
    last = (
        select(table.c.id)
        .where(table.c.backend == incident.backend)
        .order_by(table.c.id.desc())
        .limit(LAST_OF_BACKEND)
    )
    rows = connection.execute(
        select(table)
        .where(
            or_(
                table.c.incident_id == incident.id,
                table.c.state.in_(UNDER_WAY),
                table.c.planned_at >= since,
                table.c.ended_at >= since,
                table.c.id.in_(last),
            )
        )
        .order_by(table.c.id)
    )
    return tuple(_attempt(row) for row in rows)


def loads(connection: Connection, backend: str) -> tuple[float, ...]:
    """Seconds from the restart to the first answer, of the last that ended well, newest first."""
    table = tables.attempts
    rows = connection.execute(
        select(table.c.acting_at, table.c.ended_at)
        .where(
            table.c.backend == backend,
            table.c.mode == Mode.ACT,
            table.c.state == AttemptState.RECOVERED,
            table.c.acting_at.is_not(None),
        )
        .order_by(table.c.id.desc())
        .limit(LOADS_KEPT)
    )
    return tuple((row.ended_at - row.acting_at).total_seconds() for row in rows)


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(**row._mapping)  # noqa: SLF001 -- public in SQLAlchemy, in spite of its name
