"""The flags of the backtest, read into one value."""

import math
import re
import time
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fleet.flags import duration, http_url

DESCRIPTION = """\
Judges the vLLM series that a Prometheus has kept with the exporter's own code, and lists each
restart that it would have asked for."""
STATUSES = """\
exit status: 0 no would-be restart, 1 at least one, 2 cannot tell (Prometheus unreachable, no vLLM
series, bad flags)"""
UNIX = re.compile(r"\d{1,11}(\.\d+)?", re.ASCII)
SELECTOR = re.compile(r"\{.*\}", re.DOTALL)


@dataclass(frozen=True)
class Options:
    """What to look at: from ``since`` to ``until``, Unix seconds; ``wait`` in seconds.

    ``match`` holds label matchers without their braces. It may be empty.
    """

    prometheus: str
    since: int
    until: int
    wait: float
    match: str
    token_file: Path | None
    json: bool


def options(argv: Sequence[str], now: Callable[[], float] = time.time) -> Options:
    """The options of a command line. Raises SystemExit: 2 where it is wrong, 0 for --help."""
    args = parser().parse_args(argv)
    until = math.floor(now() if args.until is None else min(args.until, now()))
    return Options(
        prometheus=args.prometheus,
        since=until - math.ceil(args.since),
        until=until,
        wait=args.wait,
        match=args.match,
        token_file=args.token_file,
        json=args.json,
    )


def parser() -> ArgumentParser:
    """The parser of the command line."""
    made = ArgumentParser(
        prog="vllm-exporter backtest",
        description=DESCRIPTION,
        epilog=STATUSES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--prometheus", type=http_url, required=True, metavar="URL", help="where its API is served")
    add(
        "--since",
        type=duration,
        default=duration("14d"),
        metavar="DURATION",
        help="how far back to look from --until (default: 14d)",
    )
    add(
        "--until",
        type=moment,
        metavar="TIME",
        help="where to end, RFC 3339 or Unix seconds (default: now)",
    )
    add(
        "--wait",
        type=duration,
        default=duration("90s"),
        metavar="DURATION",
        help="one wait; silence for two is the proof (default: 90s)",
    )
    add(
        "--match",
        type=matchers,
        default="{}",
        metavar="SELECTOR",
        help="""which targets, as PromQL: '{job="vllm"}' (default: all that serve vLLM)""",
    )
    add(
        "--bearer-token-file",
        dest="token_file",
        type=Path,
        metavar="FILE",
        help="file with the token to send to Prometheus",
    )
    add("--json", action="store_true", help="print one JSON document instead of tables")
    return made


def moment(text: str) -> float:
    """Unix seconds of a time. Raises ArgumentTypeError with one sentence."""
    if UNIX.fullmatch(text):
        return float(text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        example = "2026-11-30T09:00:00Z or 1796029200"
        raise ArgumentTypeError(f"{text!r} is not a time such as {example}")
    return read.timestamp()


def matchers(text: str) -> str:
    """What stands between a selector's braces. Raises ArgumentTypeError with one sentence."""
    if not SELECTOR.fullmatch(text.strip()):
        raise ArgumentTypeError(f"""{text!r} is not a selector such as '{{job="vllm"}}'""")
    return text.strip()[1:-1].strip().rstrip(",")
