"""``vllm-remediator hold``: a backend is not restarted until a time, whatever its alerts say."""

import argparse
from collections.abc import Sequence

from remediator.commands.asking import add_by, said
from remediator.commands.exit_status import ExitStatus
from remediator.commands.options import duration_as_written, parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import moment, say
from remediator.record import EVERY_BACKEND

DESCRIPTION = """\
Holds a backend, or all of them: it is not restarted until the time is over or somebody releases it.
Every hold has an end."""


def main(argv: Sequence[str]) -> int:
    """Hold what the command line names. Returns the exit status."""
    made = parser("hold", DESCRIPTION)
    add_target(made)
    made.add_argument(
        "--for",
        dest="long",
        required=True,
        metavar="DURATION",
        type=duration_as_written,
        help="for how long: 90s, 2h, 1d",
    )
    add_by(made, why="required")
    return run(made, argv, _hold)


def add_target(made: argparse.ArgumentParser) -> None:
    """Add BACKEND and ``--all``, one of which is needed."""
    which = made.add_mutually_exclusive_group(required=True)
    which.add_argument("backend", nargs="?", metavar="BACKEND", help="its name in fleet.yml")
    which.add_argument("--all", action="store_true", help="every backend")


def target(args: argparse.Namespace) -> str:
    """The backend of ``add_target``, or EVERY_BACKEND."""
    return EVERY_BACKEND if args.all else str(args.backend)


def _hold(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    asked: dict[str, object] = {"backend": target(args), "for": args.long, **said(args)}
    hold = remote.post("holds", **asked)
    name = "every backend" if args.all else hold["backend"]
    say(f"{name} is held until {moment(hold['until'])} UTC (hold {hold['id']}): {hold['why']}")
    return ExitStatus.OK
