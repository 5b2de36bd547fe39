"""``make bench-crash``: prints one table and, last, the RESULT line."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.crash.episode import Side
from benchmarks.crash.match import Match
from benchmarks.crash.score import Row, row, rows
from demo.child import sigterm_as_ctrl_c
from demo.parts import PartMissingError
from demo.postgresql import PostgreSQL

KILLS = 210
AT_ONCE = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Play and print. Returns 0; 1 where anything was done twice or lost, 2 if a part is missing.

    On SQLite there is one remediator, on PostgreSQL there are two.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crash", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--kills", type=int, default=KILLS, help="at least so many")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="incidents at a time")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="bench-crash-"))
    began = time.monotonic()
    with ExitStack() as stack:
        side = Side(_sqlite, replicas=1, takeover_after="1s")
        if args.database == "postgresql":
            try:
                server = stack.enter_context(PostgreSQL())
            except PartMissingError as error:
                print(error, file=sys.stderr)
                return 2
            side = Side(lambda _: server.database(), replicas=2, takeover_after="4s")
        match = Match(folder, side, args.seed)
        match.play(args.kills, args.at_once)
    everything = row("all", match.results)
    table = _table(args.database, rows(match.results), everything)
    Console(width=110).print(table)
    print(f"{time.monotonic() - began:.0f} s")
    failed = [result for result in match.results if result.double or result.lost]
    for result in failed:
        print(f"see {result.folder}: {result}", file=sys.stderr)
    if not failed:
        shutil.rmtree(folder)
    print(
        f"RESULT kills={everything.kills} double_restarts={everything.double} "
        f"lost_incidents={everything.lost} incidents={everything.incidents} "
        f"restarts={everything.restarts} database={args.database}"
    )
    return 1 if failed else 0


def _sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'remediator.db'}"


def _table(database: str, found: list[Row], everything: Row) -> Table:
    who = {"sqlite": "one remediator on SQLite", "postgresql": "two remediators on PostgreSQL"}
    table = Table(title=f"SIGKILL at every step, {who[database]}")
    table.add_column("killed at", overflow="fold")
    for column in ("kills", "incidents", "restarts", "double", "lost"):
        table.add_column(column, justify="right")
    for line in (*found, everything):
        if line is everything:
            table.add_section()
        table.add_row(
            line.step,
            *map(str, (line.kills, line.incidents, line.restarts, line.double, line.lost)),
        )
    return table


if __name__ == "__main__":
    sigterm_as_ctrl_c()
    sys.exit(main())
