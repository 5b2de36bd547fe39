"""What the remediator remembers, in one SQL database: incidents, decisions and attempts.

Everything is on disk when a method returns: an alert before it is acknowledged, an attempt before
anything is done. One remediator at a time uses a database.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Row, Select, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from fleet.reading import Reading
from fleet.settings import Mode
from remediator import episodes, tables
from remediator.database import Database
from remediator.decision import Decision
from remediator.incident import UNDER_WAY, Attempt, AttemptState, Decided, Incident, IncidentState
from remediator.notification import Alert, Status


class UnderWayError(Exception):
    """An attempt on this backend has not ended, so none is begun."""


class Attempts:
    """The database. Its methods may be called from any thread; each is one transaction.

    Every method raises StorageError when the database does not do what was asked.
    """

    def __init__(self, url: str) -> None:
        """``url`` is SQLAlchemy's; tables that are missing are made. Raises StorageError."""
        self._database = Database(url)

    @property
    def folder(self) -> Path | None:
        """Where the database's file stands; None where it is not a file."""
        return self._database.folder

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def note(self, alerts: Iterable[Alert], now: datetime) -> tuple[Incident, ...]:
        """Open (again) the incidents of what fires and close those of what is resolved.

        Returns the incidents that were closed, as they were before.
        """
        closed: list[Incident] = []
        with self._database.write(urgent=True) as connection:
            for alert in alerts:
                if alert.status is Status.FIRING:
                    episodes.open_again(connection, alert, now)
                else:
                    closed += episodes.resolve(connection, alert, now)
        return tuple(closed)

    def due(
        self, now: datetime, *, besides: Collection[str] = (), most: int | None = None
    ) -> tuple[Incident, ...]:
        """The open incidents that are due to be decided about, the longest waiting first.

        At most so many, and none of the backends ``besides``.
        """
        table = tables.incidents
        return self._incidents(
            select(table)
            .where(
                table.c.state == IncidentState.OPEN,
                table.c.next_look_at <= now,
                table.c.backend.not_in(besides),
            )
            .order_by(table.c.next_look_at, table.c.id)
            .limit(most)
        )

    def incident(self, number: int) -> Incident:
        """The incident of this id, as it is now."""
        with self._database.read() as connection:
            table = tables.incidents
            return episodes.incident_of(
                connection.execute(select(table).where(table.c.id == number)).one()
            )

    def open_incidents(self) -> tuple[Incident, ...]:
        """All open incidents."""
        table = tables.incidents
        return self._incidents(select(table).where(table.c.state == IncidentState.OPEN))

    def decided(
        self, incident: Incident, decision: Decision, next_look_at: datetime, now: datetime
    ) -> None:
        """Record a decision; an Ignore closes the incident.

        The journal has one line for each change of action or reason.
        """
        with self._database.write() as connection:
            episodes.record(connection, incident, decision, now)
            connection.execute(
                update(tables.incidents)
                .where(tables.incidents.c.id == incident.id)
                .values(next_look_at=next_look_at)
            )

    def look_again(self, incident_id: int, at: datetime) -> None:
        """Make an incident due at ``at``."""
        with self._database.write() as connection:
            table = tables.incidents
            connection.execute(
                update(table).where(table.c.id == incident_id).values(next_look_at=at)
            )

    def plan(
        self, incident: Incident, mode: Mode, before: Reading | None, now: datetime
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
        with self._database.write() as connection:
            try:
                result = connection.execute(insert(tables.attempts).values(**values))
            except IntegrityError:
                raise UnderWayError(f"an attempt on {incident.backend} is under way") from None
            (number,) = result.inserted_primary_key or (0,)
        return self.attempt(number)

    def advance(
        self, attempt: Attempt, state: AttemptState, now: datetime, **values: object
    ) -> Attempt:
        """Write down that an attempt has come to ``state`` now, and the other columns given.

        Returns the attempt anew.
        """
        times = {AttemptState.ACTING: "acting_at", AttemptState.STARTING: "starting_at"}
        values[times.get(state, "ended_at")] = now
        table = tables.attempts
        query = update(table).where(table.c.id == attempt.id)
        with self._database.write() as connection:
            connection.execute(query.values(state=state, **values))
        return self.attempt(attempt.id)

    def attempt(self, number: int) -> Attempt:
        """The attempt of this id."""
        with self._database.read() as connection:
            table = tables.attempts
            return _attempt(connection.execute(select(table).where(table.c.id == number)).one())

    def under_way(self) -> tuple[Attempt, ...]:
        """The attempts that have not ended."""
        table = tables.attempts
        return self._attempts(select(table).where(table.c.state.in_(UNDER_WAY)))

    def bearing_on(self, incident: Incident, since: datetime) -> tuple[Attempt, ...]:
        """The attempts that a decision has to look at.

        Those of the incident, those under way, and those of any backend that did anything at or
        after ``since`` or the beginning of the incident's alert.
        """
        table = tables.attempts
        since = min(since, incident.starts_at)
        return self._attempts(
            select(table)
            .where(
                or_(
                    table.c.incident_id == incident.id,
                    table.c.state.in_(UNDER_WAY),
                    table.c.planned_at >= since,
                    table.c.ended_at >= since,
                )
            )
            .order_by(table.c.id)
        )

    def newest_incidents(self, most: int) -> tuple[Incident, ...]:
        """The newest incidents, newest first."""
        table = tables.incidents
        return self._incidents(select(table).order_by(table.c.id.desc()).limit(most))

    def newest_attempts(self, most: int) -> tuple[Attempt, ...]:
        """The newest attempts, newest first."""
        table = tables.attempts
        return self._attempts(select(table).order_by(table.c.id.desc()).limit(most))

    def newest_decisions(self, most: int) -> tuple[Decided, ...]:
        """The newest lines of the journal, newest first."""
        table = tables.decisions
        query = (
            select(table, tables.incidents.c.backend)
            .join(tables.incidents)
            .order_by(table.c.id.desc())
            .limit(most)
        )
        with self._database.read() as connection:
            return tuple(Decided(**row._mapping) for row in connection.execute(query))  # noqa: SLF001 -- public in SQLAlchemy

    def attempt_counts(self, mode: Mode) -> dict[tuple[str, AttemptState], int]:
        """How many attempts of this mode there are, by backend and state."""
        table = tables.attempts
        query = (
            select(table.c.backend, table.c.state, func.count())
            .where(table.c.mode == mode)
            .group_by(table.c.backend, table.c.state)
        )
        with self._database.read() as connection:
            return {(row[0], row[1]): row[2] for row in connection.execute(query)}

    def restarts(self) -> dict[str, tuple[int, datetime]]:
        """For each backend, how many restart commands were begun, and when the last was."""
        table = tables.attempts
        query = (
            select(table.c.backend, func.count(), func.max(table.c.acting_at, type_=tables.Utc()))
            .where(table.c.acting_at.is_not(None))
            .group_by(table.c.backend)
        )
        with self._database.read() as connection:
            return {row[0]: (row[1], row[2]) for row in connection.execute(query)}

    def forget(self, before: datetime) -> None:
        """Delete what was closed before this time and led to no attempt."""
        table = tables.incidents
        old = select(table.c.id).where(
            table.c.state == IncidentState.CLOSED,
            table.c.closed_at < before,
            table.c.id.not_in(select(tables.attempts.c.incident_id)),
        )
        with self._database.write() as connection:
            connection.execute(
                delete(tables.decisions).where(tables.decisions.c.incident_id.in_(old))
            )
            connection.execute(delete(table).where(table.c.id.in_(old)))

    def _incidents(self, query: Select[Any]) -> tuple[Incident, ...]:
        with self._database.read() as connection:
            return tuple(episodes.incident_of(row) for row in connection.execute(query))

    def _attempts(self, query: Select[Any]) -> tuple[Attempt, ...]:
        with self._database.read() as connection:
            return tuple(_attempt(row) for row in connection.execute(query))


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(**row._mapping)  # noqa: SLF001
