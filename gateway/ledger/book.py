"""The bill in the SQL database: each function is part of the transaction it is given.

Whatever is booked only adds (gateway/ledger/record.py). Rows that are read in order to be changed
are locked, in the order of their ids; SQLite has one writer at a time anyway.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Insert,
    Row,
    and_,
    bindparam,
    delete,
    select,
    tuple_,
    update,
)

from gateway.bill import Opened
from gateway.ledger.entries import LEFT_BEHIND
from gateway.ledger.progress import Progress, serial_of, unpacked
from gateway.ledger.record import FREE, Booking, Leg, Record, State, booked, failed, word
from gateway.ledger.rows import insert_into, insert_new, leg_row, new_row, record_of
from gateway.ledger.tables import gateways, legs, moment, requests, runs, seconds

Item = TypeVar("Item")
AT_ONCE = 400

_RECORDS = (
    update(requests)
    .where(requests.c.id == bindparam("number"))
    .values(
        state=bindparam("to_state"),
        prompt_tokens=bindparam("to_prompt"),
        completion_tokens=bindparam("to_completion"),
        finish_reason=bindparam("to_reason"),
        ended_at=bindparam("to_ended"),
        holder=bindparam("to_holder"),
    )
)


def book(connection: Connection, bookings: Sequence[Booking]) -> None:
    """Bring requests up to what their runs have counted."""
    if not bookings:
        return
    keys = {(word(one.opened.caller), word(one.opened.request_id)) for one in bookings}
    found = _found(connection, keys)
    lost = [one for one in bookings if _key(one.opened) not in found and _counts(one)]
    if lost:
        # The database is another one, or an older copy: the journal has all that is needed.
        for one in lost:
            _insert_lost(connection, one)
        found = _found(connection, keys)
    before = _before(connection, {one.run for one in bookings})
    after = {key: (number, record) for key, (number, record) in found.items()}
    totals = dict(before)
    rows = {}
    for one in bookings:
        if _key(one.opened) not in found:
            continue
        number, record = after[_key(one.opened)]
        counted = totals.get(one.run, 0)
        after[_key(one.opened)] = number, booked(record, counted, one)
        if one.completion_tokens > counted or one.state != State.OPEN:
            totals[one.run] = max(counted, one.completion_tokens)
        for leg in one.legs:
            rows[one.run, leg.number] = leg_row(number, one.run, leg)
    _write_records(connection, [pair for key, pair in after.items() if pair != found[key]])
    numbers = {one.run: found[_key(one.opened)][0] for one in bookings if _key(one.opened) in found}
    _write_runs(
        connection,
        {
            run: (numbers[run], total)
            for run, total in totals.items()
            if before.get(run) != total and run in numbers
        },
    )
    _write_legs(connection, list(rows.values()))


def adopt(connection: Connection, holder: str, bookings: Sequence[Booking], at: float) -> int:
    """End everything that a gateway which is gone had in hand; returns how much that was.

    ``bookings`` are what its journal told. Without it, what it had last written here is what
    counts; where that is nothing, nothing was delivered as far as anybody knows.
    """
    query = select(gateways.c.progress).where(gateways.c.holder == holder).with_for_update()
    progress = unpacked(connection.scalar(query) or b"")
    told = {one.run for one in bookings}
    in_hand = select(requests).where(requests.c.holder == holder).order_by(requests.c.id)
    rows = connection.execute(in_hand.with_for_update()).all()
    rest = [_last_seen(row, progress, at) for row in rows if row.run not in told]
    for some in _chunks([*bookings, *rest]):
        book(connection, some)
    connection.execute(delete(gateways).where(gateways.c.holder == holder))
    return len(bookings) + len(rest)


def leave(connection: Connection, holder: str) -> None:
    """Nothing is in hand any more: the others need not look after us."""
    connection.execute(delete(gateways).where(gateways.c.holder == holder))


def _key(opened: Opened) -> tuple[str, str]:
    return word(opened.caller), word(opened.request_id)


def _counts(booking: Booking) -> bool:
    return booking.completion_tokens > 0 or booking.state not in FREE


def _insert_lost(connection: Connection, booking: Booking) -> None:
    row = new_row(booking.opened, booking.run, None)
    statement = insert_new(connection.dialect.name)
    done = connection.execute(statement.values(**row))
    if done.rowcount == 0:
        connection.execute(statement.values(**row | {"idempotency_key": None}))


def _found(
    connection: Connection, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[int, Record]]:
    found = {}
    for some in _chunks(sorted(keys)):
        query = select(requests).where(tuple_(requests.c.caller, requests.c.request_id).in_(some))
        for row in connection.execute(query.order_by(requests.c.id).with_for_update()):
            found[row.caller, row.request_id] = row.id, record_of(row)
    return found


def _before(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    before: dict[str, int] = {}
    for some in _chunks(sorted(names)):
        query = select(runs.c.run, runs.c.completion_tokens).where(runs.c.run.in_(some))
        before.update((row.run, row.completion_tokens) for row in connection.execute(query))
    return before


def _write_records(connection: Connection, records: Sequence[tuple[int, Record]]) -> None:
    if not records:
        return
    rows = [
        {
            "number": number,
            "to_state": record.state.value,
            "to_prompt": record.prompt_tokens,
            "to_completion": record.completion_tokens,
            "to_reason": word(record.finish_reason),
            "to_ended": None if record.ended_at is None else moment(record.ended_at),
            "to_holder": record.holder,
        }
        for number, record in records
    ]
    connection.execute(_RECORDS, rows)


def _write_runs(connection: Connection, totals: Mapping[str, tuple[int, int]]) -> None:
    if not totals:
        return
    rows = [
        {"run": run, "request": number, "completion_tokens": total}
        for run, (number, total) in totals.items()
    ]
    connection.execute(_runs(connection.dialect.name), rows)


def _write_legs(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    connection.execute(_legs(connection.dialect.name), rows)


# Making a statement costs more than executing it.


@cache
def _runs(kind: str) -> Insert:
    statement = insert_into(kind)(runs)
    tokens = statement.excluded.completion_tokens
    done: Insert = statement.on_conflict_do_update(
        index_elements=[runs.c.run],
        set_={"completion_tokens": tokens},
        where=runs.c.completion_tokens < tokens,
    )
    return done


@cache
def _legs(kind: str) -> Insert:
    statement = insert_into(kind)(legs)
    new = statement.excluded
    done: Insert = statement.on_conflict_do_update(
        index_elements=[legs.c.run, legs.c.number],
        set_={
            "prompt_tokens": new.prompt_tokens,
            "completion_tokens": new.completion_tokens,
            "how": new.how,
            "ended_at": new.ended_at,
        },
        # Who was taken for gone tells the truth later.
        where=and_(legs.c.how == LEFT_BEHIND, new.how != LEFT_BEHIND),
    )
    return done


def _last_seen(row: Row[Any], progress: Mapping[int, Progress], at: float) -> Booking:
    opened = Opened(
        row.request_id,
        row.caller,
        row.idempotency_key,
        row.model,
        row.route,
        seconds(row.started_at),
    )
    seen = progress.get(serial_of(row.run))
    if seen is None or (seen.prompt_tokens is None and seen.tokens == 0):
        return failed(opened, row.run, at)
    leg = Leg(seen.leg, seen.backend, seen.leg_prompt, seen.leg_tokens, LEFT_BEHIND, at)
    return Booking(
        opened,
        row.run,
        seen.prompt_tokens,
        seen.tokens,
        State.PARTIAL,
        "",
        at,
        (leg,) if seen.leg else (),
    )


def _chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))
