"""``vllm-remediator why BACKEND``: its last decision, with every question and its answer."""

import argparse
from collections.abc import Sequence

from remediator.commands.exit_status import ExitStatus
from remediator.commands.options import parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import Cell, as_json, moment, say, table

DESCRIPTION = (
    "Says why a backend was or was not restarted: every question in order, and its answer."
)
COLUMNS = ("", "QUESTION", "ANSWER")


def main(argv: Sequence[str]) -> int:
    """Say why. Returns the exit status."""
    made = parser("why", DESCRIPTION, reads=True)
    made.add_argument("backend", metavar="BACKEND", help="its name in fleet.yml")
    return run(made, argv, _why)


def _why(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    why = remote.get("backends", args.backend, "why")
    if args.json:
        as_json(why)
        return ExitStatus.OK
    last, examined = why["decision"], why["examined"]
    if last is None:
        say(f"nothing has been decided about {args.backend} yet")
        return ExitStatus.OK
    say(f"{args.backend}: {last['action']} {last['reason']}: {last['why']}")
    say(f"  incident {last['incident']}, since {moment(last['at'])} UTC")
    if examined is not None and examined["id"] != last["id"]:
        said = f"{examined['action']} {examined['reason']}, {moment(examined['at'])} UTC"
        say(f"  the questions are those of the decision before it: {said}")
    marks = {True: "✗", False: "✓"}
    table(
        COLUMNS,
        [
            [
                Cell(marks[question["stands_against"]], marks[question["stands_against"]]),
                question["question"],
                question["said"],
            ]
            for question in why["questions"]
        ],
    )
    if why["not_asked"]:
        say(f"not asked any more: {', '.join(why['not_asked'])}")
    return ExitStatus.OK
