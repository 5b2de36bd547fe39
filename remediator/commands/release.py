"""``vllm-remediator release``: ends holds before their time."""

import argparse
from collections.abc import Sequence

from remediator.commands.asking import add_by, said
from remediator.commands.exit_status import ExitStatus
from remediator.commands.hold import add_target, target
from remediator.commands.options import parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import moment, say

DESCRIPTION = """\
Ends every hold on a backend; with --all those on all backends together. A hold on one backend and
one on all are two: each is released by the name it was made with."""


def main(argv: Sequence[str]) -> int:
    """Release what the command line names. Returns the exit status."""
    made = parser("release", DESCRIPTION)
    add_target(made)
    add_by(made, why="why, for the log")
    return run(made, argv, _release)


def _release(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    released = remote.post("backends", target(args), "release", **said(args))["released"]
    name = "every backend" if args.all else args.backend
    for hold in released:
        until = moment(hold["until"])
        say(
            f"released hold {hold['id']} on {name} ({hold['by']}, until {until} UTC: {hold['why']})"
        )
    if not released:
        say(f"no hold on {name} was in force")
    for hold in remote.get("holds"):
        if hold["backend"] in (args.backend, "*"):
            say(f"hold {hold['id']} on every backend stays until {moment(hold['until'])} UTC")
    return ExitStatus.OK
