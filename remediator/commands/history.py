"""``vllm-remediator history``: the attempts, and everything that is kept of one."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from remediator.commands.exit_status import CommandError, ExitStatus
from remediator.commands.options import parser, run
from remediator.commands.remote import Remote
from remediator.commands.show import Cell, as_json, moment, say, table
from remediator.shadow import in_words

DESCRIPTION = """\
Without more: the last attempts, the newest first. `history BACKEND`: those on one backend.
`history show ID`: all that is kept of one attempt. `history show ID FILE`: a file of its evidence.
A command's output and files of evidence need the token."""
COLUMNS = ("ID", "BACKEND", "PLANNED", "TOOK", "MODE", "STATE", "WHY")
SHOW = "show"
MOST_WORDS = 3
BAD = ("still_stuck", "not_back", "failed", "interrupted")


def main(argv: Sequence[str]) -> int:
    """Show what is asked for. Returns the exit status."""
    made = parser("history", DESCRIPTION, reads=True)
    made.add_argument("words", nargs="*", metavar="BACKEND | show ID [FILE]")
    made.add_argument("--limit", type=_limit, default=20, metavar="N", help="default: %(default)s")
    return run(made, argv, _history)


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 100:  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100")
    return int(text)


def _history(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    words = args.words
    if words[:1] == [SHOW] and 1 < len(words) <= MOST_WORDS:
        return _one(remote, args)
    if len(words) > 1 or words == [SHOW]:
        raise CommandError("history: BACKEND, or: show ID [FILE]", ExitStatus.USAGE)
    query = {"backend": words[0]} if words else {}
    attempts = remote.get("attempts", limit=args.limit, **query)
    if args.json:
        as_json(attempts)
    elif attempts:
        table(COLUMNS, [_row(attempt) for attempt in attempts])
    else:
        say("no attempt yet")
    return ExitStatus.OK


def _one(remote: Remote, args: argparse.Namespace) -> ExitStatus:
    _, number, *file = args.words
    if not number.isascii() or not number.isdecimal():
        raise CommandError(f"history show: {number!r} is not an attempt's number", ExitStatus.USAGE)
    if file:
        text = remote.text("attempts", number, "evidence", file[0])
        say(text.removesuffix("\n"))
        return ExitStatus.OK
    attempt = remote.get("attempts", number, with_token=True)
    if args.json:
        as_json(attempt)
    else:
        say("\n".join(_lines(attempt)))
    return ExitStatus.OK


def _row(attempt: Mapping[str, Any]) -> list[Cell | str]:
    took = _seconds(attempt["planned_at"], attempt["ended_at"])
    state, outcome = attempt["state"], attempt["shadow_outcome"]
    return [
        str(attempt["id"]),
        attempt["backend"],
        moment(attempt["planned_at"]),
        "under way" if took is None else in_words(took),
        attempt["mode"],
        Cell(outcome or state, "person" if state in BAD and not outcome else "none"),
        attempt["why"],
    ]


def _lines(attempt: Mapping[str, Any]) -> Iterator[str]:
    """All that is kept of an attempt."""
    yield f"attempt {attempt['id']} on {attempt['backend']}: {attempt['state']}"
    if attempt["why"]:
        yield f"  why       {attempt['why']}"
    asked = attempt["asked_by"]
    yield (
        f"  for       incident {attempt['incident']}, "
        + (f"asked for by {asked}: {attempt['asked_why']}" if asked else attempt["alertname"])
    )
    yield f"  mode      {attempt['mode']}"
    if attempt["shadow_outcome"]:
        yield f"  outcome   {attempt['shadow_outcome']}"
    for state in ("planned", "acting", "starting", "ended"):
        if attempt[f"{state}_at"]:
            yield f"  {state:<9} {moment(attempt[f'{state}_at'])} UTC"
    yield from _done(attempt)
    if attempt["questions"]:
        yield "  questions"
    for question in attempt["questions"]:
        mark = "✗" if question["stands_against"] else "✓"
        yield f"    {mark} {question['question']:<18}  {question['said']}"
    if attempt["journal"]:
        yield "  decisions"
    for line in attempt["journal"]:
        yield f"    {moment(line['at'])}  {line['action']} {line['reason']}: {line['why']}"


def _done(attempt: Mapping[str, Any]) -> Iterator[str]:
    """What was done, what it said, and what is kept."""
    if attempt["drained"]:
        yield f"  gateways  {attempt['drained']}"
    if attempt["exit_status"] is not None:
        yield f"  command   ended with status {attempt['exit_status']}"
    if attempt["output"] is None:
        yield "  output    needs the token"
    elif attempt["output"].strip():
        yield "  output"
        yield from (f"    {line}" for line in attempt["output"].strip().splitlines())
    if attempt["files"] is None:
        yield "  evidence  none is kept"
        return
    yield f"  evidence  (vllm-remediator history show {attempt['id']} FILE)"
    for file in attempt["files"]:
        yield f"    {file['name']:<30}  {file['size']:>9} bytes"


def _seconds(began: str, ended: str | None) -> float | None:
    if ended is None:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
