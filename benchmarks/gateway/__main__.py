"""``make bench-gateway``: prints one table and, last, the RESULT line.

STREAMS (``100,1000``), RATE (events per second of a stream), WINDOW (seconds that are counted) and
PEERS (``nginx,ours``) can be set.
"""

import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.gateway.cores import Cores, TooFewCoresError
from benchmarks.gateway.environment import NotInstallableError
from benchmarks.gateway.figures import Figures, figures
from benchmarks.gateway.load import Plan
from benchmarks.gateway.measure import plan, seen
from benchmarks.gateway.peers import PEERS
from demo.child import NotReadyError, sigterm_as_ctrl_c
from demo.parts import PartMissingError

STREAMS = tuple(map(int, os.environ.get("STREAMS", "100,1000").split(",")))
RATE = float(os.environ.get("RATE", "50"))
WINDOW = float(os.environ.get("WINDOW", "10"))
CHOSEN = tuple(os.environ.get("PEERS", ",".join(PEERS)).split(","))
NOT_MEASURED = "not_measured"
COLUMNS = (
    "streams",
    "events/s",
    "CPU an event",
    "of its core",
    "first +p50",
    "first +p99",
    "gap +p99",
    "memory a stream",
    "whole",
)


def main() -> int:
    """Measure and print. Returns 0, or 2 where it cannot be measured here."""
    if unknown := set(CHOSEN) - PEERS.keys():
        print(f"PEERS: {', '.join(sorted(unknown))} not in {', '.join(PEERS)}", file=sys.stderr)
        return 2
    try:
        cores = Cores.here()
    except TooFewCoresError as error:
        print(error, file=sys.stderr)
        return 2
    table = Table(
        title=f"A relay between streams of {RATE:g} events a second each and their server"
    )
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    measured: dict[str, Figures] = {}
    missing: dict[str, str] = {}
    for place, streams in enumerate(STREAMS):
        wanted = plan(streams, RATE, WINDOW)
        of_these, gone = _measured(cores, wanted)
        missing |= gone
        measured = measured or of_these
        for name, cost in of_these.items():
            table.add_row(name, str(streams), *_cells(cost))
        if place + 1 < len(STREAMS):
            table.add_section()
    console = Console(width=130)
    console.print(table)
    console.print(
        "first, gap: what the relay adds to the time to the first token, and between two events.\n"
        "An asterisk: it did not keep up; its times grow with the length of the run. Not told: no\n"
        "answer came, or server and clients do not keep up without a relay either."
    )
    for name, why in missing.items():
        console.print(f"{name}: not measured here: {why}", markup=False)
    print(_result(measured))
    return 0


def _measured(cores: Cores, wanted: Plan) -> tuple[dict[str, Figures], dict[str, str]]:
    found: dict[str, Figures] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as name:
        direct = seen(_folder(name, "direct"), cores, wanted, None)
        for peer in CHOSEN:
            try:
                through = seen(_folder(name, peer), cores, wanted, PEERS[peer])
            except (NotInstallableError, PartMissingError) as error:
                missing[peer] = f"not installable: {error}"
            except NotReadyError as error:
                missing[peer] = str(error)
            else:
                found[peer] = figures(wanted, through, direct)
                print(f"{peer} {wanted.streams}: {found[peer]}", file=sys.stderr)
    return found, missing


def _folder(parent: str, name: str) -> Path:
    folder = Path(parent) / name
    folder.mkdir()
    return folder


def _cells(cost: Figures) -> tuple[str, ...]:
    return (
        f"{cost.rate:.0f}{'' if cost.keeps_up else '*'}",
        f"{cost.cpu_us:.1f} µs",
        f"{cost.core:.0%}",
        _ms(cost.first_p50),
        _ms(cost.first_p99),
        _ms(cost.gap_p99),
        f"{cost.memory_kb:.0f} KB",
        f"{cost.whole:.0%}",
    )


def _ms(seconds: float) -> str:
    """In milliseconds, where it can be told."""
    return f"{seconds * 1e3:.1f} ms" if math.isfinite(seconds) else "not told"


def _result(measured: Mapping[str, Figures]) -> str:
    """Of the first number of streams."""
    costs = {
        f"{name}_us": f"{measured[name].cpu_us:.1f}" if name in measured else NOT_MEASURED
        for name in ("ours", *(peer for peer in PEERS if peer != "ours"))
    }
    ours = measured.get("ours")
    told = ours is not None and math.isfinite(ours.first_p99)
    first = f"{ours.first_p99 * 1e3:.1f}" if ours and told else NOT_MEASURED
    result = {**costs, "ttft_added_p99_ms": first}
    return "RESULT " + " ".join(f"{name}={value}" for name, value in result.items())


if __name__ == "__main__":
    sigterm_as_ctrl_c()
    sys.exit(main())
