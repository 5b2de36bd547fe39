"""I/O: what the ledger holds for a report."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, select, true

from gateway.ledger.database import Database
from gateway.ledger.progress import Progress, serial_of, unpacked
from gateway.ledger.record import FREE
from gateway.ledger.report import By, Line
from gateway.ledger.tables import gateways, moment, requests

COLUMNS: dict[By, ColumnElement[Any]] = {
    By.CALLER: requests.c.caller,
    By.MODEL: requests.c.model,
    By.DAY: func.date(requests.c.started_at),
}


def lines(
    database: Database, by: Sequence[By], since: float | None, until: float | None
) -> list[Line]:
    """One line for each, of requests that began in [since, until) (Unix seconds), sorted.

    What is in hand counts as far as its gateway has written, at most 50 ms ago.
    """
    when = and_(
        requests.c.started_at >= moment(since) if since is not None else true(),
        requests.c.started_at < moment(until) if until is not None else true(),
    )
    names = [COLUMNS[name].label(f"by_{name}") for name in by]
    found: dict[tuple[str, ...], Line] = {}
    with database.read() as connection:
        sums = select(
            *names,
            requests.c.state,
            func.count().label("number"),
            func.coalesce(func.sum(requests.c.prompt_tokens), 0).label("prompt"),
            func.sum(requests.c.completion_tokens).label("completion"),
        ).where(when)
        for row in connection.execute(sums.group_by(*names, requests.c.state)):
            _add(_line(found, row, by), row)
        in_hand = select(*names, requests.c.run, requests.c.holder, requests.c.prompt_tokens).where(
            when, requests.c.holder.is_not(None)
        )
        written = in_progress(connection)
        for row in connection.execute(in_hand):
            progress = written.get(row.run)
            if progress is not None:
                prompt = 0 if row.prompt_tokens is not None else progress.prompt_tokens or 0
                line = _line(found, row, by)
                line.add(prompt_tokens=prompt, completion_tokens=progress.tokens)
    return [found[of] for of in sorted(found)]


def in_progress(connection: Connection) -> dict[str, Progress]:
    """How far each run in hand is, by its name; what ended is in the book instead."""
    written = {row.holder: unpacked(row.progress) for row in connection.execute(select(gateways))}
    query = select(requests.c.run, requests.c.holder).where(requests.c.holder.is_not(None))
    found = {}
    for row in connection.execute(query):
        progress = written.get(row.holder, {}).get(serial_of(row.run))
        if progress is not None:
            found[row.run] = progress
    return found


def _line(found: dict[tuple[str, ...], Line], row: Row[*tuple[Any, ...]], by: Sequence[By]) -> Line:
    of = tuple(str(getattr(row, f"by_{name}")) for name in by)
    return found.setdefault(of, Line(of))


def _add(line: Line, row: Row[*tuple[Any, ...]]) -> None:
    if row.state in FREE:
        line.add(free=row.number)
        return
    line.add(requests=row.number, prompt_tokens=int(row.prompt))
    line.add(completion_tokens=int(row.completion), **{row.state: row.number})
