"""Values of the ledger as rows, and rows as values."""

from functools import cache
from typing import Any

from sqlalchemy import Insert, Row
from sqlalchemy.dialects import postgresql, sqlite

from gateway.bill import Opened
from gateway.ledger.record import Leg, Record, State, word
from gateway.ledger.tables import moment, requests, seconds


def new_row(opened: Opened, run: str, holder: str | None) -> dict[str, Any]:
    """A request as it begins."""
    return {
        "caller": word(opened.caller),
        "request_id": word(opened.request_id),
        "idempotency_key": word(opened.key),
        "model": word(opened.model),
        "route": word(opened.route),
        "state": State.OPEN.value,
        "prompt_tokens": None,
        "completion_tokens": 0,
        "finish_reason": "",
        "started_at": moment(opened.at),
        "ended_at": None,
        "run": run,
        "holder": holder,
    }


def record_of(row: Row[Any]) -> Record:
    """A request as it stands."""
    return Record(
        State(row.state),
        row.prompt_tokens,
        row.completion_tokens,
        row.finish_reason,
        row.run,
        row.holder,
        None if row.ended_at is None else seconds(row.ended_at),
    )


def leg_row(number: int, run: str, leg: Leg) -> dict[str, Any]:
    """A leg of the request that has this number."""
    return {
        "request": number,
        "run": run,
        "number": leg.number,
        "backend": word(leg.backend),
        "prompt_tokens": leg.prompt_tokens,
        "completion_tokens": leg.completion_tokens,
        "how": word(leg.how),
        "ended_at": moment(leg.at),
    }


@cache
def insert_new(kind: str) -> Insert:
    """The INSERT of a request that does nothing where its id or its key is there already."""
    statement: Insert = insert_into(kind)(requests).on_conflict_do_nothing()
    return statement


def insert_into(kind: str) -> Any:  # noqa: ANN401 -- the two have no common type
    """The INSERT that knows conflicts, of a kind of database: ``sqlite`` or ``postgresql``."""
    return postgresql.insert if kind == "postgresql" else sqlite.insert
