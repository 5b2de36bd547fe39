"""Lets requests in: each is written down once by its id, and once by its key.

Part of the transaction it is given. The database itself sees to "once", over all gateways.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, or_, select, update

from gateway.bill import Admission, End, Opened
from gateway.ledger.record import FREE, Record, State, word
from gateway.ledger.rows import insert_new, new_row, record_of
from gateway.ledger.tables import requests


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that wants in; ``resume``: it goes on with one that was interrupted."""

    opened: Opened
    run: str
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is told, and the record that is there already, if there is one."""

    admission: Admission
    record: Record | None = None


def admit(connection: Connection, holder: str, asked: Sequence[Asked]) -> list[Answer]:
    """Write new requests down, each once by its id and once by its key."""
    if not asked:
        return []
    rows = sorted((new_row(one.opened, one.run, holder) for one in asked), key=_identity)
    statement = insert_new(connection.dialect.name).returning(requests.c.run)
    new = set(connection.scalars(statement, rows))
    return [
        Answer(Admission.NEW) if one.run in new else _known(connection, holder, one)
        for one in asked
    ]


def would_admit(connection: Connection, opened: Opened) -> Admission:
    """What a new request would be told now."""
    same = or_(
        requests.c.request_id == word(opened.request_id),
        requests.c.idempotency_key == word(opened.key),
    )
    query = select(requests).where(requests.c.caller == word(opened.caller), same)
    told = {_told(record_of(row)) for row in connection.execute(query)}
    return next((one for one in (Admission.BUSY, Admission.AGAIN) if one in told), Admission.NEW)


def stage(connection: Connection, caller: str, request_id: str) -> End | Admission:
    """How a request has ended; BUSY while it is in hand, NEW where it is not known."""
    query = select(requests.c.state, requests.c.holder).where(
        requests.c.caller == word(caller), requests.c.request_id == word(request_id)
    )
    row = connection.execute(query).first()
    if row is None:
        return Admission.NEW
    return Admission.BUSY if row.holder is not None else End(row.state)


def _told(record: Record) -> Admission:
    if record.holder is not None:
        return Admission.BUSY
    return Admission.NEW if record.state in FREE else Admission.AGAIN


def _known(connection: Connection, holder: str, asked: Asked) -> Answer:
    opened = asked.opened
    same = requests.c.request_id == word(opened.request_id)
    if not asked.resume:
        same = or_(same, requests.c.idempotency_key == word(opened.key))
    query = select(requests).where(requests.c.caller == word(opened.caller), same)
    row = connection.execute(query.order_by(requests.c.id).limit(1).with_for_update()).first()
    if row is None:
        # Its key stands at a request of another id.
        return Answer(Admission.BUSY)
    record = record_of(row)
    is_ours = record.run == asked.run and record.holder == holder
    if is_ours:  # it was written, though nobody was told so
        return Answer(Admission.NEW)
    if record.holder is not None:
        return Answer(Admission.BUSY, record)
    goes_on = asked.resume and record.state == State.PARTIAL
    if record.state not in FREE and not goes_on:
        return Answer(Admission.AGAIN, record)
    values = (
        {"run": asked.run, "holder": holder}
        if goes_on
        else new_row(asked.opened, asked.run, holder)
    )
    connection.execute(update(requests).where(requests.c.id == row.id).values(**values))
    return Answer(Admission.NEW, record)


def _identity(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["caller"], row["request_id"]
