"""The incidents in the database: what alerts and people asked for, and what was decided about it.

Everything is on disk when a method returns: an alert before it is acknowledged.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, select

from remediator import episodes, tables
from remediator.database import Database
from remediator.decision import Decision
from remediator.incident import Decided, Incident, IncidentState
from remediator.notification import Alert, Status


class Incidents:
    """Methods may be called from any thread; each is one transaction and raises StorageError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, alerts: Iterable[Alert], now: datetime) -> tuple[Incident, ...]:
        """Open (again) the incidents of what fires and close those of what is resolved.

        Returns the incidents that were closed, as they were before.
        """
        closed: list[Incident] = []
        with self._database.write(urgent=True) as connection:
            # In one order, so that two who are told the same never wait for each other.
            for alert in sorted(alerts, key=lambda alert: alert.fingerprint):
                if alert.status is Status.FIRING:
                    episodes.open_again(connection, alert, now)
                else:
                    closed += episodes.resolve(connection, alert, now)
        return tuple(closed)

    def ask(self, backend: str, by: str, why: str, now: datetime) -> Incident:
        """Open an incident for a restart that a person asks for."""
        with self._database.write() as connection:
            return episodes.incident(connection, episodes.ask(connection, backend, by, why, now))

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
            return episodes.incident(connection, number)

    def find(self, number: int) -> Incident | None:
        """The incident of this id, or None."""
        table = tables.incidents
        found = self._incidents(select(table).where(table.c.id == number))
        return found[0] if found else None

    def open(self) -> tuple[Incident, ...]:
        """All open incidents."""
        table = tables.incidents
        return self._incidents(select(table).where(table.c.state == IncidentState.OPEN))

    def last_of(self, backend: str) -> Incident | None:
        """The backend's incident that was decided about last, or else its newest."""
        table = tables.incidents
        found = self._incidents(
            select(table)
            .where(table.c.backend == backend)
            .order_by(table.c.next_look_at.desc(), table.c.id.desc())
            .limit(1)
        )
        return found[0] if found else None

    def decided(
        self, incident: Incident, decision: Decision, next_look_at: datetime, now: datetime
    ) -> None:
        """Record a decision; an Ignore closes the incident, if it was not spoken of meanwhile.

        The journal has one line for each change of action or reason.
        """
        with self._database.write() as connection:
            episodes.record(connection, incident, decision, now)
            episodes.look_again(connection, incident.id, next_look_at)

    def look_again(self, incident_id: int, at: datetime) -> None:
        """Make an incident due at ``at``."""
        with self._database.write() as connection:
            episodes.look_again(connection, incident_id, at)

    def newest(self, most: int) -> tuple[Incident, ...]:
        """The newest incidents, newest first."""
        table = tables.incidents
        return self._incidents(select(table).order_by(table.c.id.desc()).limit(most))

    def newest_decisions(self, most: int, backend: str | None = None) -> tuple[Decided, ...]:
        """The newest lines of the journal, newest first; of one backend, or of all."""
        table, incidents = tables.decisions, tables.incidents
        query = select(table, incidents.c.backend).join(incidents)
        if backend is not None:
            query = query.where(incidents.c.backend == backend)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.c.id.desc()).limit(most))
            return tuple(Decided(**row._mapping) for row in rows)  # noqa: SLF001 -- public in SQLAlchemy

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
