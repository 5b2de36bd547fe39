"""``make bench-rollout``: prints one table and, last, the RESULT line, which is of our way.

STREAMS (40), SCALE (0.2; 1 is streams of 30 to 120 s and servers that load for 45 s) and WAYS
(``nginx,ours``) can be set.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.gateway.environment import NotInstallableError
from benchmarks.rollout.score import Score
from benchmarks.rollout.ways import WAYS, Size
from demo.child import NotReadyError, sigterm_as_ctrl_c
from demo.parts import PartMissingError

SIZE = Size(int(os.environ.get("STREAMS", "40")), float(os.environ.get("SCALE", "0.2")))
CHOSEN = tuple(os.environ.get("WAYS", ",".join(WAYS)).split(","))
COLUMNS = (
    "requests",
    "cut",
    "refused",
    "unbilled",
    "overbilled",
    "prompts twice",
    "text errors",
    "roll-out",
    "longest stall",
)


def main() -> int:
    """Roll out and print. Returns 0, or 2 where a way is not known or ours cannot be measured."""
    if unknown := set(CHOSEN) - WAYS.keys():
        print(f"WAYS: {', '.join(sorted(unknown))} not in {', '.join(WAYS)}", file=sys.stderr)
        return 2
    table = Table(title=f"A roll-out under {SIZE.streams} streams, durations times {SIZE.scale:g}")
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    missing: dict[str, str] = {}
    whys: dict[str, Mapping[str, int]] = {}
    result = "RESULT ours=not_measured"
    for way in CHOSEN:
        with tempfile.TemporaryDirectory(prefix=f"bench-rollout-{way}-") as folder:
            try:
                found = WAYS[way](Path(folder), SIZE)
            except (NotInstallableError, PartMissingError, NotReadyError) as error:
                missing[way] = str(error)
                continue
        table.add_row(way, *_cells(found))
        whys[way] = found.whys
        if way == "ours":
            result = _result(found)
    console = Console(width=120)
    console.print(table)
    for way, counts in whys.items():
        for why, count in sorted(counts.items()):
            console.print(f"{way}: {count} {why}", markup=False)
    for way, why in missing.items():
        console.print(f"{way}: not measured here: {why}", markup=False)
    print(result)
    return 2 if "ours" in missing else 0


def _cells(found: Score) -> tuple[str, ...]:
    return (
        str(found.requests),
        str(found.cut),
        f"{found.refused_pct:.1f} %",
        f"{found.unbilled_pct:.2f} %",
        f"{found.overbilled_pct:.2f} %",
        str(found.double_prompts),
        str(found.text_errors),
        f"{found.rollout_s:.0f} s",
        f"{found.longest_stall_s:.1f} s",
    )


def _result(found: Score) -> str:
    values = asdict(found)
    del values["requests"], values["whys"]
    said = (
        f"{name}={value:.2f}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )
    return "RESULT " + " ".join(said)


if __name__ == "__main__":
    sigterm_as_ctrl_c()
    sys.exit(main())
