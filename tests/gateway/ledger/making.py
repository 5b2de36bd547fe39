"""Requests and their ends as tests want them, and what the database holds of them."""

import fcntl
import os
from dataclasses import dataclass

from sqlalchemy import select

from gateway.bill import Closed, End, Opened
from gateway.ledger.database import Database
from gateway.ledger.journal import Journal
from gateway.ledger.tables import legs, requests, runs

T0 = 1_780_000_000.0


def opened(name: str = "r1", *, caller: str = "acme", key: str | None = None) -> Opened:
    return Opened(name, caller, key or name, "tiny", "/v1/chat/completions", T0)


def closed(
    end: End = End.COMPLETE, *, prompt: int = 7, completion: int = 0, at: float = T0 + 9
) -> Closed:
    return Closed(end, "stop" if end == End.COMPLETE else "", prompt, completion, at)


@dataclass(frozen=True)
class Charged:
    state: str
    prompt: int | None
    completion: int
    holder: str | None


def charged(database: Database) -> dict[str, Charged]:
    """Every record, by its request id."""
    with database.read() as connection:
        return {
            row.request_id: Charged(row.state, row.prompt_tokens, row.completion_tokens, row.holder)
            for row in connection.execute(select(requests))
        }


def unequal(database: Database) -> list[str]:
    """Requests whose total is not the sum over their runs: there must be none."""
    with database.read() as connection:
        sums: dict[int, int] = {}
        for row in connection.execute(select(runs)):
            sums[row.request] = sums.get(row.request, 0) + row.completion_tokens
        return [
            row.request_id
            for row in connection.execute(select(requests))
            if row.completion_tokens != sums.get(row.id, 0)
        ]


def told_legs(database: Database) -> list[tuple[str, int, int, str]]:
    with database.read() as connection:
        query = select(legs).order_by(legs.c.run, legs.c.number)
        return [
            (row.backend, row.prompt_tokens, row.completion_tokens, row.how)
            for row in connection.execute(query)
        ]


def killed(journal: Journal) -> None:
    """What SIGKILL leaves of a journal: files as they are, and nobody who has them locked."""
    for segment in journal._segments:
        fcntl.flock(segment._file, fcntl.LOCK_UN)
        os.close(segment._file)
    journal._segments.clear()
