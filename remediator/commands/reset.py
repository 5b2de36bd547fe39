"""``vllm-remediator reset``: begin anew with a backend that was given up."""

import argparse
from collections.abc import Sequence

from remediator.commands.asking import add_by, said
from remediator.commands.exit_status import ExitStatus
from remediator.commands.options import parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import moment, say

DESCRIPTION = """\
Begins anew with a backend that was given up: restarts before now do not count any more as ones that
did not help. Its cool-down and its limits stay."""


def main(argv: Sequence[str]) -> int:
    """Reset what the command line names. Returns the exit status."""
    made = parser("reset", DESCRIPTION)
    made.add_argument("backend", metavar="BACKEND", help="its name in fleet.yml")
    add_by(made, why="why, for the log")
    return run(made, argv, _reset)


def _reset(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    before = remote.post("backends", args.backend, "reset", **said(args))
    if before["given_up_at"] is None:
        say(f"{args.backend} is reset; it was not given up")
    else:
        at = moment(before["given_up_at"])
        say(f"{args.backend} is reset; it had been given up at {at} UTC: {before['given_up_why']}")
    return ExitStatus.OK
