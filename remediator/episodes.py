"""How the rows of incidents and decisions change: opened, resolved, decided about."""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from remediator import tables
from remediator.decision import RESOLVED, Answer, Decision, Ignore, Reason, Restart
from remediator.incident import Incident, IncidentState, Origin
from remediator.notification import REMEDIATE, Alert, Symptom


def open_again(connection: Connection, alert: Alert, now: datetime) -> None:
    """Open the alert's incident. One that was closed is opened again: everything is asked anew."""
    table = tables.incidents
    same = (table.c.fingerprint == alert.fingerprint) & (table.c.starts_at == alert.starts_at)
    # Locked, so that nobody closes it between our look and our change.
    known = select(table.c.id, table.c.state).where(same).with_for_update()
    found = connection.execute(known).first()
    if found is None:
        if _open(connection, alert, now):
            return
        found = connection.execute(known).one()
    query = update(table).where(table.c.id == found.id)
    connection.execute(query.values(heard_at=now, ends_at=alert.ends_at))
    if found.state is IncidentState.CLOSED:
        connection.execute(query.values(state=IncidentState.OPEN, closed_at=None, next_look_at=now))


def _open(connection: Connection, alert: Alert, now: datetime) -> bool:
    """Open an incident; tells whether it is new, and nobody opened it at this very moment."""
    new = insert(tables.incidents).values(
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
    try:
        with connection.begin_nested():
            connection.execute(new)
    except IntegrityError:
        return False
    return True


def resolve(connection: Connection, alert: Alert, now: datetime) -> list[Incident]:
    """Close every open episode of the alert that began before this end."""
    table = tables.incidents
    query = (
        select(table)
        .where(
            table.c.fingerprint == alert.fingerprint,
            table.c.state == IncidentState.OPEN,
            table.c.starts_at <= max(alert.starts_at, alert.ends_at or alert.starts_at),
        )
        .order_by(table.c.id)
        .with_for_update()
    )
    found = [incident_of(row) for row in connection.execute(query)]
    for incident in found:
        record(connection, incident, RESOLVED, now)
    return found


def ask(connection: Connection, backend: str, by: str, why: str, now: datetime) -> int:
    """Open an incident for a restart that a person asks for; returns its id."""
    result = connection.execute(
        insert(tables.incidents).values(
            fingerprint=uuid.uuid4().hex,
            starts_at=now,
            alertname="",
            backend=backend,
            remediate="",
            symptom=Symptom.STUCK,
            state=IncidentState.OPEN,
            opened_at=now,
            heard_at=now,
            next_look_at=now,
            origin=Origin.PERSON,
            asked_by=by,
            asked_why=why,
        )
    )
    (number,) = result.inserted_primary_key or (0,)
    return int(number)


def incident(connection: Connection, number: int) -> Incident:
    """The incident of this id, as it is now."""
    table = tables.incidents
    return incident_of(connection.execute(select(table).where(table.c.id == number)).one())


def in_trouble(connection: Connection) -> frozenset[str]:
    """The backends for which an open incident's alert asks for a restart."""
    table = tables.incidents
    query = select(table.c.backend).where(
        table.c.state == IncidentState.OPEN,
        table.c.origin == Origin.ALERT,
        table.c.remediate == REMEDIATE,
    )
    return frozenset(connection.scalars(query))


def record(
    connection: Connection,
    incident: Incident,
    decision: Decision,
    now: datetime,
    answers: tuple[Answer, ...] = (),
) -> None:
    """Record a decision; the journal only takes changes.

    An Ignore closes the incident, unless a notification spoke of it after ``incident`` was read:
    what was looked at is older than that. So does whatever else is no restart to one that a person
    asked for: they are told at once, and nobody is restarted hours later. While the restart that
    they asked for is under way it stays open.
    """
    table = tables.incidents
    what = {"action": decision.action, "reason": decision.reason}
    told = {"until": decision.until, "why": decision.why, "answers": answers}
    query = update(table).where(table.c.id == incident.id)
    connection.execute(query.values(**what, **told))
    refused = incident.origin is Origin.PERSON and not isinstance(decision, Restart)
    if isinstance(decision, Ignore) or (refused and decision.reason is not Reason.UNDER_WAY):
        unheard = query.where(table.c.heard_at == incident.heard_at)
        connection.execute(unheard.values(state=IncidentState.CLOSED, closed_at=now))
    if not incident.was_told(decision):
        connection.execute(
            insert(tables.decisions).values(incident_id=incident.id, at=now, **what, **told)
        )


def incident_of(row: Row[Any]) -> Incident:
    """An incident from its row."""
    return Incident(**row._mapping)  # noqa: SLF001 -- public in SQLAlchemy, in spite of its name


def look_again(connection: Connection, incident_id: int, at: datetime) -> None:
    """Make an incident due at ``at``."""
    table = tables.incidents
    connection.execute(update(table).where(table.c.id == incident_id).values(next_look_at=at))
