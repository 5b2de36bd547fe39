"""``vllm-remediator status``: one line for each backend, the most urgent first."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from remediator.commands.exit_status import ExitStatus
from remediator.commands.options import parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import Cell, as_json, moment, say, table
from remediator.shadow import in_words

DESCRIPTION = "Says how each backend stands with the remediator, the most urgent first."
COLUMNS = ("BACKEND", "SITUATION", "RESTARTS", "COOLING DOWN UNTIL", "LOADS IN", "WHY")


def main(argv: Sequence[str]) -> int:
    """Say how it stands. Returns the exit status."""
    return run(parser("status", DESCRIPTION, reads=True), argv, _status)


def _status(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    fleet = remote.get("status")
    if args.json:
        as_json(fleet)
        return ExitStatus.OK
    many = fleet["restarts"]
    left, window = fleet["restarts_left"], in_words(fleet["window_seconds"])
    say(
        f"mode {fleet['mode']}, {many} restart{'' if many == 1 else 's'} in {window}, {left} left, "
        f"as of {moment(fleet['as_of'])} UTC"
    )
    if fleet["trouble"]:
        say(f"the remediator cannot be relied on: {fleet['trouble']}")
    for hold in fleet["holds"]:
        if hold["backend"] == "*":
            until = moment(hold["until"])
            say(f"{hold['by']} holds every backend until {until} UTC: {hold['why']}")
    table(COLUMNS, [_row(row) for row in fleet["backends"]])
    return ExitStatus.OK


def _row(row: Mapping[str, Any]) -> list[Cell | str]:
    load = row["load_seconds"]
    return [
        row["backend"],
        Cell(row["situation"], row["urgency"]),
        f"{row['restarts']} of {row['restarts'] + row['restarts_left']}",
        moment(row["cool_down_until"]),
        "-" if load is None else in_words(load),
        row["why"],
    ]
