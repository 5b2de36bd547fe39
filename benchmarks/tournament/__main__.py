"""``python -m benchmarks.tournament``: every method on every server, one table."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from benchmarks.tournament.episodes import play_for_real, real_result, real_table
from benchmarks.tournament.methods.lifeguard import Lifeguard
from benchmarks.tournament.rounds import METHODS, SEED, SIZES, specs, tournament
from benchmarks.tournament.score import by_kind, result, table
from demo.child import sigterm_as_ctrl_c

SHOWN = 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print the table and, last, the RESULT line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tournament", allow_abbrev=False)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--details", action="store_true", help="by workload and kind of hang, too")
    parser.add_argument("--vllm", action="store_true", help="then at a real vLLM, in scaled time")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    scores = tournament(specs(SIZES[given.size], given.seed), given.jobs)
    print(table([score.row(name) for name, score in scores.items()]))
    if given.details:
        print(f"\n{by_kind(scores)}")
    mistakes = sorted(scores[Lifeguard.name].mistakes, key=attrgetter("what", "server", "at"))
    for mistake in mistakes[:SHOWN]:
        print(f"{mistake.what}: {mistake.server} at {mistake.at} s ({mistake.workload})")
    if len(mistakes) > SHOWN:
        print(f"and {len(mistakes) - SHOWN} more")
    print(f"seed {given.seed}, {time.monotonic() - began:.0f} s")
    line = result(scores, Lifeguard.name)
    if given.vllm:
        line += f" {_at_a_real_vllm()}"
    print(line)
    return 0


def _at_a_real_vllm() -> str:
    """Play and print its table; what the RESULT line says of it."""
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {what}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        tallies = play_for_real(Path(folder), METHODS, say)
    print(f"\n{real_table(tallies)}")
    return real_result(tallies[Lifeguard.name])


if __name__ == "__main__":
    sigterm_as_ctrl_c()
    sys.exit(main())
