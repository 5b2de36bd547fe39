"""What the bill costs: the writer's CPU and the wait to be let in, at 1,000 streams of 50 ids/s.

python -m benchmarks.gateway.book [--database URL] [--folder FOLDER] [--seconds N] [--streams N]

Then, for comparison, what CPU four ways take to keep 1,000 runs' progress: one value for all of
them (ours, alone or in a group with more), a row for each brought up to date, and a row for each
added.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    update,
)

from gateway.bill import Closed, End, LegEnd, Opened
from gateway.ledger.admit import Asked
from gateway.ledger.beat import Beat
from gateway.ledger.database import Database
from gateway.ledger.journal import Journal, Slot
from gateway.ledger.progress import packed
from gateway.ledger.upkeep import Upkeep
from gateway.ledger.writer import EVERY, Writer

STREAMS = 1000
IDS_PER_SECOND = 50
ADMISSIONS_PER_SECOND = 200
GROUPS = 100
HOLDER = "bench"

_others = MetaData()
rows = Table("bench_progress", _others, Column("run", Text), Column("tokens", BigInteger))
keyed = Table(
    "bench_keyed", _others, Column("run", Text, primary_key=True), Column("tokens", BigInteger)
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", help="SQLAlchemy's URL (default: SQLite in FOLDER)")
    parser.add_argument("--folder", type=Path, help="for SQLite's file and the journal")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--streams", type=int, default=STREAMS)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        url = arguments.database or f"sqlite:///{folder}/gateway.db"
        database = Database(url)
        for admissions in (0, ADMISSIONS_PER_SECOND):
            print(
                _under_load(
                    database, Path(folder), arguments.seconds, admissions, arguments.streams
                )
            )
        with database.write() as connection:
            _others.create_all(connection)
        beat = Beat(database, HOLDER)
        for name, way in (
            ("alone", partial(_alone, beat)),
            ("value", partial(_value, beat)),
            ("update", _update),
            ("append", _append),
        ):
            print(f"progress={name} {_cost(database, way)}")
        with database.write() as connection:
            _others.drop_all(connection)
        database.close()
    return 0


def _under_load(
    database: Database, folder: Path, seconds: float, admissions: int, streams: int
) -> str:
    journal = Journal(folder / f"journal-{admissions}")
    writer = Writer(database, journal, 3.0)
    upkeep = Upkeep(database)
    writer.start()
    upkeep.start()
    thread = next(one for one in threading.enumerate() if one.name == "ledger")
    assert thread.ident is not None  # noqa: S101 -- it is started
    clock = time.pthread_getcpuclockid(thread.ident)
    slots = [_admitted(writer, journal, f"{admissions}-{n}") for n in range(streams)]
    time.sleep(2 * EVERY)
    waits: list[float] = []
    asking = threading.Thread(target=_ask, args=(writer, journal, admissions, seconds, waits))
    cpu, began, lags = time.clock_gettime(clock), time.monotonic(), []
    asking.start()
    rounds = int(seconds * IDS_PER_SECOND)
    for number in range(rounds):
        for slot in slots:
            journal.add(slot, (number,))
        lags.append(writer.lag_seconds)
        time.sleep(max(0.0, began + (number + 1) / IDS_PER_SECOND - time.monotonic()))
    took = time.monotonic() - began
    cpu = time.clock_gettime(clock) - cpu
    asking.join()
    for slot in slots:
        journal.close(slot, Closed(End.COMPLETE, "stop", 10, rounds, time.time()))
    while not (writer.is_done and journal.is_empty):
        time.sleep(EVERY)
    writer.stop()
    upkeep.stop()
    journal.remove()
    waits.sort()
    shown = "".join(
        f" admit_p{share * 100:g}_ms={waits[int(len(waits) * share)] * 1e3:.1f}"
        for share in (0.5, 0.99)
        if waits
    )
    return (
        f"streams={streams} ids_per_s={streams * rounds / took:.0f} admissions_per_s={admissions} "
        f"writer_cpu_pct={cpu / took * 100:.1f} longest_lag_ms={max(lags) * 1e3:.0f}{shown}"
    )


def _ask(
    writer: Writer, journal: Journal, per_second: int, seconds: float, waits: list[float]
) -> None:
    """New requests at random times, each of which ends at once."""
    chance = random.Random(1)  # noqa: S311 -- no secret
    done: list[threading.Event] = []
    until = time.monotonic() + seconds
    due = time.monotonic()
    for number in range(int(per_second * seconds)):
        due += chance.expovariate(per_second)
        if due > until:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        opened, run = _opened(f"new-{number}-{per_second}"), journal.run()
        began, event = time.perf_counter(), threading.Event()

        def admitted(
            _: object,
            opened: Opened = opened,
            run: tuple[str, int] = run,
            began: float = began,
            event: threading.Event = event,
        ) -> None:
            waits.append(time.perf_counter() - began)
            slot = journal.open(opened, run)
            journal.leg_end(slot, LegEnd("gpu-a", 10, 0, "finished", time.time()))
            journal.close(slot, Closed(End.COMPLETE, "stop", 10, 0, time.time()))
            event.set()

        writer.ask(Asked(opened, run[0])).add_done_callback(admitted)
        done.append(event)
    for event in done:
        event.wait(5.0)


def _admitted(writer: Writer, journal: Journal, name: str) -> Slot:
    run = journal.run()
    opened = _opened(name)
    writer.ask(Asked(opened, run[0])).result()
    slot = journal.open(opened, run)
    journal.prompt(slot, 10)
    journal.leg(slot, "gpu-a", time.time())
    return slot


def _opened(name: str) -> Opened:
    return Opened(name, "caller", name, "model", "/v1/chat/completions", time.time())


def _cost(database: Database, way: Callable[[Database, int], None]) -> str:
    with database.write() as connection:
        connection.execute(delete(keyed))
        connection.execute(insert(keyed), [{"run": f"{n}", "tokens": 0} for n in range(STREAMS)])
    cpu, began = time.thread_time(), time.perf_counter()
    for number in range(GROUPS):
        way(database, number)
    cpu, took = time.thread_time() - cpu, time.perf_counter() - began
    return (
        f"cpu_ms_per_group={cpu / GROUPS * 1e3:.2f} wall_ms_per_group={took / GROUPS * 1e3:.2f} "
        f"cpu_pct={cpu / GROUPS / EVERY * 100:.1f}"
    )


def _alone(beat: Beat, _: Database, number: int) -> None:
    beat.alone(_packed(number), time.time())


def _value(beat: Beat, database: Database, number: int) -> None:
    with database.write() as connection:
        beat.within(connection, _packed(number), time.time())


def _packed(number: int) -> bytes:
    numbers: list[int] = []
    for serial in range(STREAMS):
        numbers += (serial, 11, number, 1, 0, 10, number)
    return packed(["gpu-a"], numbers)


def _update(database: Database, number: int) -> None:
    statement = update(keyed).where(keyed.c.run == bindparam("of")).values(tokens=bindparam("to"))
    with database.write() as connection:
        connection.execute(statement, [{"of": f"{n}", "to": number} for n in range(STREAMS)])


def _append(database: Database, number: int) -> None:
    with database.write() as connection:
        connection.execute(
            insert(rows), [{"run": f"{n}", "tokens": number} for n in range(STREAMS)]
        )


if __name__ == "__main__":
    sys.exit(main())
