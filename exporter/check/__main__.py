"""``vllm-exporter check URL…``: whether a server is healthy, proven stuck or dead, or neither."""

import argparse
import json
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from exporter.check.conclusion import Outcome
from exporter.check.look import Found, once, patience, until_known
from exporter.check.report import as_json, lines, sentences
from exporter.check.state_file import StateFile, StateFileError
from exporter.memory import Snapshot
from fleet.backend import Backend, Kind
from fleet.flags import duration, http_url
from fleet.schema import DefaultsSection, ExporterSection
from fleet.settings import ExporterSettings

PROVEN = 1
CANNOT_JUDGE = 2
DESCRIPTION = """\
Reads what vLLM servers publish, waits where waiting can tell, and says of each whether it is
healthy. Sends nothing to a server that has anything to do; an engine that is idle for a whole wait
is asked for one token."""
EPILOG = """\
exit status:
  0  every server is healthy: it moves, or is idle and answers, or sleeps or is paused on purpose;
     with --state-file also where nothing is proven so far
  1  at least one is proven stuck (two waits of silence with work pending) or dead
  2  none is proven stuck or dead, but at least one cannot be judged; also for a bad command line
"""


def main(argv: Sequence[str]) -> int:
    """Check the servers of the command line. Returns the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.wait < 2 * args.interval:
        parser.error(f"--wait: {args.wait:g}s is shorter than two looks (--interval)")
    if args.timeout > args.interval:
        parser.error(f"--timeout: {args.timeout:g}s is longer than --interval")
    backends = tuple(_backend(url, args) for url in dict.fromkeys(args.urls))
    settings = ExporterSettings(
        interval=args.interval,
        timeout=args.timeout,
        answer_every=None if args.no_ask else ExporterSection().answer_every,
    )
    try:
        found = _found(backends, settings, args)
    except StateFileError as error:
        print(error, file=sys.stderr)
        return 0 if args.liveness else CANNOT_JUDGE
    except Exception:  # noqa: BLE001 -- Python's own status for a crash would say "proven"
        traceback.print_exc()
        return 0 if args.liveness else CANNOT_JUDGE
    if args.json:
        print(json.dumps(as_json(backends, found), indent=2))
    elif not args.quiet:
        print("\n".join(lines(backends, found)))
    return _status(found, liveness=args.liveness)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vllm-exporter check",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("urls", nargs="+", type=http_url, metavar="URL", help="base URL of a vLLM server")
    for flag, default, text in (
        ("--wait", DefaultsSection().wait, "silence of two waits is proof of a hang"),
        ("--warm-up", DefaultsSection().warm_up, "how long a new process may compile"),
        ("--interval", ExporterSection().interval, "between two looks"),
        ("--timeout", ExporterSection().timeout, "for one look"),
    ):
        add(
            flag,
            type=duration,
            default=default,
            metavar="DURATION",
            help=f"{text} (default: {default:g}s)",
        )
    add("--api-key-file", type=Path, metavar="FILE", help="the servers' API key")
    add("--no-ask", action="store_true", help="never send the one-token request to an idle engine")
    add(
        "--state-file",
        type=Path,
        metavar="FILE",
        help="look once, remember in FILE, go on from there at the next call (probes, cron)",
    )
    add("--liveness", action="store_true", help="exit 1 only where something is proven, else 0")
    add("--json", action="store_true", help="say it as JSON")
    add("--quiet", action="store_true", help="say nothing; the exit status tells")
    return parser


def _backend(url: str, args: argparse.Namespace) -> Backend:
    return Backend(
        name=url,
        url=url,
        kind=Kind.VLLM,
        wait=args.wait,
        load_time=DefaultsSection().load_time,
        warm_up=args.warm_up,
        api_key_file=args.api_key_file,
    )


def _found(
    backends: tuple[Backend, ...], settings: ExporterSettings, args: argparse.Namespace
) -> Mapping[str, Found]:
    if args.state_file is not None:
        return once(backends, settings, StateFile(args.state_file))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    console = Console(stderr=True)
    if args.quiet or not console.is_terminal:
        return until_known(backends, settings, stop, lambda *_: None)
    progress = _Progress(backends, settings)
    with Live(console=console, get_renderable=progress.text, refresh_per_second=2, transient=True):
        return until_known(backends, settings, stop, progress.saw)


class _Progress:
    """What is known so far, for a person who waits."""

    def __init__(self, backends: tuple[Backend, ...], settings: ExporterSettings) -> None:
        self._began = time.monotonic()
        self._most = max(patience(backend, settings) for backend in backends)
        self._snapshots: dict[str, Snapshot | None] = {backend.name: None for backend in backends}

    def saw(self, name: str, snapshot: Snapshot) -> None:
        self._snapshots[name] = snapshot

    def text(self) -> Text:
        seconds = time.monotonic() - self._began
        told = [f"looking for {seconds:.0f} s; no later than {self._most:.0f} s it is known"]
        for name, snapshot in self._snapshots.items():
            told.append(name)
            told += (
                ["  not read yet"] if snapshot is None else map("  {}".format, sentences(snapshot))
            )
        return Text("\n".join(told))


def _status(found: Mapping[str, Found], *, liveness: bool) -> int:
    outcomes = {one.outcome for one in found.values()}
    if Outcome.PROVEN in outcomes:
        return PROVEN
    return CANNOT_JUDGE if Outcome.CANNOT_JUDGE in outcomes and not liveness else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
