"""``vllm-remediator shadow report``: what restarts that were not made tell about making them."""

import argparse
from collections.abc import Sequence

from remediator.commands.exit_status import ExitStatus
from remediator.commands.options import duration_as_written, parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import as_json, moment, say, table

DESCRIPTION = "Sums up what became of the servers that would have been restarted in mode act."
COLUMNS = ("BACKEND", "CASES", "CAME BACK", "RESTARTED", "STAYED STUCK", "NOT SEEN", "WATCHED")
FIELDS = ("cases", "came_back", "restarted", "stayed_stuck", "not_seen", "watched")


def main(argv: Sequence[str]) -> int:
    """Report. Returns the exit status."""
    made = parser("shadow", DESCRIPTION, reads=True)
    made.add_argument("what", choices=["report"])
    made.add_argument(
        "--since",
        type=duration_as_written,
        default="30d",
        metavar="DURATION",
        help="default: %(default)s",
    )
    return run(made, argv, _report)


def _report(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    told = remote.get("shadow", since=args.since)
    if args.json:
        as_json(told)
        return ExitStatus.OK
    say(f"since {moment(told['since'])} UTC; the mode is {told['mode']}")
    if told["backends"]:
        table(
            COLUMNS, [[row["backend"], *(str(row[f]) for f in FIELDS)] for row in told["backends"]]
        )
    say("\n".join(told["sentences"]))
    if told["change"]:
        say("\n".join(f"    {line}" for line in told["change"].splitlines()))
    return ExitStatus.OK
