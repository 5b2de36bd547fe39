"""``vllm-remediator restart BACKEND``: a planned restart, behind the same guards as any other."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from remediator.commands.asking import add_by, said
from remediator.commands.exit_status import CommandError, ExitStatus
from remediator.commands.options import parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import moment, printable, say
from remediator.commands.watch import Watch, telling
from remediator.shadow import in_words

DESCRIPTION = """\
Restarts a backend that need not be stuck. Everything that limits restarts limits this one, too:
holds, cool-down, limits of the backend and of the fleet. Its gateways move its streams away first.
Follows the restart to its end; Ctrl-C only stops watching."""


def main(argv: Sequence[str]) -> int:
    """Restart what the command line names. Returns the exit status."""
    made = parser("restart", DESCRIPTION)
    made.add_argument("backend", metavar="BACKEND", help="its name in fleet.yml")
    add_by(made, why="required")
    made.add_argument("--yes", action="store_true", help="do not ask whether it is meant")
    return run(made, argv, _restart)


def _restart(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    say("\n".join(_plan(_row(remote, args.backend))))
    if sys.stdin.isatty() and not args.yes and not _means_it(args.backend):
        print("nothing was done", file=sys.stderr)
        return ExitStatus.STOPPED
    asked = remote.post("backends", args.backend, "restart", **said(args))
    watch = Watch(remote, asked["id"])
    try:
        with telling() as tell:
            end = watch.to_its_end(tell)
    except KeyboardInterrupt:
        print(
            "not watched any more; the restart goes on. To see it: "
            f"vllm-remediator {_where(watch, args.backend)}",
            file=sys.stderr,
        )
        return ExitStatus.STOPPED
    if end.well:
        say(f"{args.backend}: {end.why}")
        return ExitStatus.OK
    print(printable(f"{args.backend}: {end.why}"), file=sys.stderr)
    if watch.attempt is not None:
        print(f"more: vllm-remediator {_where(watch, args.backend)}", file=sys.stderr)
    return ExitStatus.REFUSED


def _row(remote: Remote, backend: str) -> Mapping[str, Any]:
    for row in remote.get("status")["backends"]:
        if row["backend"] == backend:
            found: Mapping[str, Any] = row
            return found
    remote.get("backends", backend, "why")  # says what is spelt alike
    raise CommandError(f"{backend!r} is not a backend in fleet.yml", ExitStatus.USAGE)


def _plan(row: Mapping[str, Any]) -> Iterator[str]:
    """What will be done."""
    yield f"{row['backend']} at {row['url']} would be restarted by {row['restart'] or 'nothing'}"
    many = row["gateways"]
    if many:
        word = "gateway is" if many == 1 else "gateways are"
        yield f"  its {many} {word} asked to move its streams away first"
    else:
        yield "  it has no gateway: streams that are open there are cut"
    load, most = row["load_seconds"], in_words(row["patience_seconds"])
    seen = "no load was seen yet" if load is None else f"loads took {in_words(load)} or less"
    yield f"  {seen}; it has {most} to come back"
    last = moment(row["last_restart_at"])
    yield f"  restarts left to it: {row['restarts_left']}; the last {last}"
    against = row["against_restart"]
    if against is not None:
        yield f"  now it would be refused by {against['question']}: {against['said']}"


def _means_it(backend: str) -> bool:
    try:
        return input(f"Restart {backend}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _where(watch: Watch, backend: str) -> str:
    return f"why {backend}" if watch.attempt is None else f"history show {watch.attempt}"
