"""vllm-gateway ledger: the bill as a report, and the bill against the backends' own counters.

Exit status: 0 all is well; 1 the loss is above --most; 2 the settings or the command are wrong;
3 the database does not do what was asked; 4 nothing can be told about loss.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from fleet.backend import Backend, Kind
from fleet.mistake import shown
from fleet.settings import Settings, SettingsError, load
from gateway.ledger import billed, marks, reconcile, report
from gateway.ledger.database import Database, StorageError, SyncedDatabase
from gateway.ledger.reconcile import Mark
from gateway.ledger.report import By

FINE, LOSS, BAD_USE, NO_DATABASE, NOTHING_TOLD = range(5)
MOST = 0.1

Take = Callable[[Database, Sequence[Backend]], Sequence[Mark]]


def main(argv: Sequence[str] | None = None, *, take: Take = marks.take) -> int:
    """Do what the command says; returns the exit status. ``take`` marks backends."""
    arguments = _parser().parse_args(argv)
    arguments.take = take
    try:
        settings = load(arguments.config_file)
        url = arguments.database or _database(settings)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return BAD_USE
    place = "--database" if arguments.database else f"{arguments.config_file}: gateway.database"
    try:
        named = SyncedDatabase.checked(url)
    except StorageError as error:
        print(f"{place}: {error}", file=sys.stderr)
        return BAD_USE
    if named.get_backend_name() == "sqlite" and not Path(named.database or "").is_file():
        print(f"{place}: {named.database}: there is no such file", file=sys.stderr)
        return NO_DATABASE
    try:
        with closing(SyncedDatabase(url)) as database:
            return int(arguments.act(arguments, settings, database))
    except StorageError as error:
        print(f"{place}: {error}", file=sys.stderr)
        return NO_DATABASE


def _report(arguments: argparse.Namespace, _settings: Settings, database: Database) -> int:
    by = arguments.by
    lines = billed.lines(database, by, arguments.since, arguments.until)
    if arguments.format == "csv":
        print(report.as_csv(lines, by), end="")
    elif arguments.format == "json":
        print(report.as_json(lines, by), end="")
    else:
        _console().print(report.as_table(lines, by))
    return FINE


def _mark(arguments: argparse.Namespace, settings: Settings, database: Database) -> int:
    taken = arguments.take(database, _vllms(settings))
    for mark in taken:
        said = mark.why or f"{mark.generation_tokens} tokens generated since it was started"
        print(f"{mark.backend}: {said}")
    return FINE if any(mark.generation_tokens is not None for mark in taken) else NOTHING_TOLD


def _reconcile(arguments: argparse.Namespace, settings: Settings, database: Database) -> int:
    all_compared = []
    for mark in arguments.take(database, _vllms(settings)):
        before = marks.earlier(database, mark, arguments.since)
        legs = marks.legs_between(database, before or mark, mark)
        all_compared.append(reconcile.compared(before, mark, legs))
    _console().print(reconcile.as_table(all_compared))
    loss = reconcile.overall(all_compared)
    if loss is None:
        print("loss: cannot be told")
        return NOTHING_TOLD
    print(f"loss: {loss:.4f} %")
    return LOSS if loss > arguments.most else FINE


def _vllms(settings: Settings) -> list[Backend]:
    """Those whose page is an engine's; a proxy has no counters of its own."""
    return [backend for backend in settings.backends if backend.kind == Kind.VLLM]


def _database(settings: Settings) -> str:
    gateway = getattr(settings, "gateway", None)
    if gateway is None:
        raise SettingsError(
            (f"{settings.file}: gateway: is required, or --database with the ledger's URL",)
        )
    return str(gateway.database)


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    # Numbers are not cut to the width of a pipe.
    return console if console.is_terminal else Console(highlight=False, markup=False, width=200)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm-gateway ledger", description="The bill.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("report", help="what was delivered to whom")
    _common(one, _report)
    one.add_argument("--since", type=_time, metavar="TIME", help="began then or later (UTC)")
    one.add_argument("--until", type=_time, metavar="TIME", help="began earlier (UTC)")
    one.add_argument(
        "--by",
        type=_by,
        default=[By.CALLER, By.MODEL],
        metavar="LIST",
        help="of caller, model, day (default: caller,model)",
    )
    one.add_argument("--format", choices=["table", "csv", "json"], default="table")
    two = commands.add_parser("mark", help="note how far the backends' counters are")
    _common(two, _mark)
    three = commands.add_parser("reconcile", help="compare with the backends' counters")
    _common(three, _reconcile)
    three.add_argument(
        "--since",
        type=_time,
        metavar="TIME",
        help="compare with the first mark from then on (default: with the last mark)",
    )
    three.add_argument(
        "--most",
        type=_per_cent,
        default=MOST,
        metavar="PERCENT",
        help="the loss that is still fine (default: %(default)s)",
    )
    return parser


def _common(parser: argparse.ArgumentParser, act: object) -> None:
    parser.set_defaults(act=act)
    parser.add_argument(
        "--config.file",
        dest="config_file",
        type=Path,
        default=Path("fleet.yml"),
        metavar="FILE",
        help="the fleet's settings (default: %(default)s)",
    )
    parser.add_argument(
        "--database", metavar="URL", help="SQLAlchemy's URL (default: gateway.database)"
    )


def _time(text: str) -> float:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        sentence = f"{shown(text)} is no time; write 2026-03-01 or 2026-03-01T12:00:00Z"
        raise argparse.ArgumentTypeError(sentence) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _by(text: str) -> list[By]:
    names = text.split(",")
    try:
        by = [By(name.strip()) for name in names]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not of caller, model, day") from None
    if len(set(by)) < len(by):
        raise argparse.ArgumentTypeError(f"{shown(text)} names one twice")
    return by


def _per_cent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= reconcile.PER_CENT:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number from 0 to 100")
    return value


if __name__ == "__main__":
    sys.exit(main())
