"""How the rows of incidents and decisions change: opened, resolved, decided about."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from remediator import tables
from remediator.decision import RESOLVED, Decision, Ignore
from remediator.incident import Incident, IncidentState
from remediator.notification import Alert


def open_again(connection: Connection, alert: Alert, now: datetime) -> None:
    """Open the alert's incident. One that was closed is opened again: everything is asked anew."""
    table = tables.incidents
    same = (table.c.fingerprint == alert.fingerprint) & (table.c.starts_at == alert.starts_at)
    known = connection.execute(select(table.c.id, table.c.state).where(same)).first()
    if known is None:
        connection.execute(
            insert(table).values(
                fingerprint=alert.fingerprint,
                starts_at=alert.starts_at,
                ends_at=alert.ends_at,
                alertname=alert.alertname,
                backend=alert.backend,
                engine=alert.engine,
                remediate=alert.remediate,
                symptom=alert.symptom,
                state=IncidentState.OPEN,
                opened_at=now,
                heard_at=now,
                next_look_at=now,
            )
        )
        return
    query = update(table).where(table.c.id == known.id)
    connection.execute(query.values(heard_at=now, ends_at=alert.ends_at))
    if known.state is IncidentState.CLOSED:
        connection.execute(query.values(state=IncidentState.OPEN, closed_at=None, next_look_at=now))


def resolve(connection: Connection, alert: Alert, now: datetime) -> list[Incident]:
    """Close every open episode of the alert that began before this end."""
    table = tables.incidents
    query = select(table).where(
        table.c.fingerprint == alert.fingerprint,
        table.c.state == IncidentState.OPEN,
        table.c.starts_at <= max(alert.starts_at, alert.ends_at or alert.starts_at),
    )
    found = [incident_of(row) for row in connection.execute(query)]
    for incident in found:
        record(connection, incident, RESOLVED, now)
    return found


def record(connection: Connection, incident: Incident, decision: Decision, now: datetime) -> None:
    """Record a decision; an Ignore closes the incident, and the journal only takes changes."""
    table = tables.incidents
    what = {"action": decision.action, "reason": decision.reason}
    told = {"until": decision.until, "why": decision.why}
    query = update(table).where(table.c.id == incident.id)
    connection.execute(query.values(**what, **told))
    if isinstance(decision, Ignore):
        connection.execute(query.values(state=IncidentState.CLOSED, closed_at=now))
    if not incident.was_told(decision):
        connection.execute(
            insert(tables.decisions).values(incident_id=incident.id, at=now, **what, **told)
        )


def incident_of(row: Row[Any]) -> Incident:
    """An incident from its row."""
    return Incident(**row._mapping)  # noqa: SLF001 -- public in SQLAlchemy, in spite of its name
