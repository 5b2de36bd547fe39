"""I/O: marks of backends: their counters as their pages show them, and how far the ledger is."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from sqlalchemy import Connection, func, insert, select, text

from fleet.backend import Backend
from fleet.fetch import METRICS, Failure, Fetcher, Page
from fleet.reading import Reading
from gateway.ledger.billed import in_progress
from gateway.ledger.database import Database
from gateway.ledger.reconcile import Legs, Mark
from gateway.ledger.tables import legs, marks, moment, seconds

PROGRAM = "gateway"
TIMEOUT = 10.0
AT_ONCE = 16
# What backends have counted by now has been booked by then.
SETTLE = 0.25

Read = Callable[[Backend], Page | Failure]


def read(backend: Backend) -> Page | Failure:
    """A backend's page."""
    fetcher = Fetcher(backend, PROGRAM)
    try:
        return fetcher.get(METRICS, timeout=TIMEOUT)
    finally:
        fetcher.close()


def take(
    database: Database,
    backends: Sequence[Backend],
    *,
    page: Read = read,
    wall: Callable[[], float] = time.time,
    settle: float = SETTLE,
) -> list[Mark]:
    """Mark backends, all at the same time, and keep the marks. Raises StorageError."""
    if not backends:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(backends))) as pool:
        pages = list(pool.map(page, backends))
    at = wall()
    time.sleep(settle)
    with database.write() as connection:
        if connection.dialect.name == "postgresql":
            # A leg that has its number, and is not committed yet, would be in neither half.
            connection.execute(text("LOCK TABLE legs IN SHARE MODE"))
        last = connection.scalar(select(func.coalesce(func.max(legs.c.id), 0)))
        under_way = _under_way(connection)
        taken = [
            _mark(backend.name, at, found, int(last or 0), under_way.get(backend.name, (0, 0, 0)))
            for backend, found in zip(backends, pages, strict=True)
        ]
        connection.execute(insert(marks), [_row(mark) for mark in taken])
    return taken


def earlier(database: Database, mark: Mark, since: float | None) -> Mark | None:
    """The last mark of the same backend before this one, or the first one from ``since`` on."""
    query = select(marks).where(marks.c.backend == mark.backend, marks.c.at < moment(mark.at))
    if since is None:
        query = query.order_by(marks.c.id.desc())
    else:
        query = query.where(marks.c.at >= moment(since)).order_by(marks.c.id)
    with database.read() as connection:
        row = connection.execute(query.limit(1)).first()
    if row is None:
        return None
    fields = dict(row._mapping)  # noqa: SLF001 -- SQLAlchemy's documented name
    del fields["id"]
    return Mark(**fields | {"at": seconds(row.at)})


def legs_between(database: Database, before: Mark, after: Mark) -> Legs:
    """The legs at a backend that ended between two of its marks."""
    query = select(
        func.count(),
        func.coalesce(func.sum(legs.c.prompt_tokens), 0),
        func.coalesce(func.sum(legs.c.completion_tokens), 0),
    ).where(
        legs.c.backend == after.backend,
        legs.c.id > before.last_leg,
        legs.c.id <= after.last_leg,
    )
    with database.read() as connection:
        number, prompt, completion = connection.execute(query).one()
    return Legs(int(number), int(prompt), int(completion))


def _under_way(connection: Connection) -> dict[str, tuple[int, int, int]]:
    """Of legs that have not ended, by backend: how many, and their tokens."""
    found: dict[str, tuple[int, int, int]] = {}
    for progress in in_progress(connection).values():
        if progress.leg:
            number, prompt, completion = found.get(progress.backend, (0, 0, 0))
            found[progress.backend] = (
                number + 1,
                prompt + progress.leg_prompt,
                completion + progress.leg_tokens,
            )
    return found


def _mark(
    name: str, at: float, page: Page | Failure, last: int, under_way: tuple[int, int, int]
) -> Mark:
    open_legs, open_prompt, open_completion = under_way
    if isinstance(page, Failure):
        return Mark(name, at, page.why, None, None, None, None, last, *under_way)
    reading = Reading.from_page(page.text)
    engines = reading.engines.values()
    return Mark(
        name,
        at,
        "" if engines else "its page is not that of a vLLM",
        reading.start_time,
        _sum(engine.prompt_tokens for engine in engines),
        _sum(engine.generation_tokens for engine in engines),
        _sum(engine.finished for engine in engines),
        last,
        open_legs,
        open_prompt,
        open_completion,
    )


def _sum(counts: Iterable[float | None]) -> int | None:
    """The sum over a backend's engines; None where one of them does not tell."""
    known = list(counts)
    if not known or any(count is None for count in known):
        return None
    return int(sum(count or 0 for count in known))


def _row(mark: Mark) -> dict[str, object]:
    return {**asdict(mark), "at": moment(mark.at)}
