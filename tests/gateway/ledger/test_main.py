"""vllm-gateway ledger, from the command line."""

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fleet.settings import load
from gateway.ledger import book, marks
from gateway.ledger.__main__ import Take, main
from gateway.ledger.admit import Asked, admit
from gateway.ledger.beat import Beat
from gateway.ledger.database import Database
from gateway.ledger.progress import packed, serial_of
from gateway.ledger.reconcile import Finding, Mark, compared
from gateway.ledger.record import Booking, Leg, State
from gateway.ledger.writer import EVERY
from tests.gateway.ledger.fakes import Disk, FakeServer
from tests.gateway.ledger.making import T0, opened

DAY = 86400.0
OPEN_RUN = "g1-0000000a"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.yml"
    file.write_text("backends:\n  - {name: gpu-a, url: 'http://127.0.0.1:9'}\n")
    return file


@pytest.fixture
def command(fleet: Path, database_url: str, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str, take: Take = marks.take) -> tuple[int, str, str]:
        place = ("--config.file", str(fleet), "--database", database_url)
        status = main([*words, *place], take=take)
        out, err = capsys.readouterr()
        return status, out, err

    return run


def fill(database: Database) -> None:
    """Of two callers: complete, partial, failed, and one that is in hand."""
    requests = [
        (opened("r1"), "g1-1", State.COMPLETE, 100),
        (opened("r2"), "g1-2", State.PARTIAL, 50),
        (opened("r3"), "g1-3", State.FAILED, 0),
        (opened("r4", caller="umbrella"), OPEN_RUN, State.OPEN, 0),
    ]
    with database.write() as connection:
        admit(connection, "g1", [Asked(one, run) for one, run, _, _ in requests])
        book.book(
            connection,
            [
                Booking(one, run, 7, tokens, state, "", T0, (Leg(1, "gpu-a", 7, tokens, "x", T0),))
                for one, run, state, tokens in requests
                if state != State.OPEN
            ],
        )
        in_hand = (serial_of(OPEN_RUN), 7 + 1, 30, 1, 0, 7, 30)
        Beat(database, "g1").within(connection, packed(["gpu-a"], in_hand), T0)


def test_a_report_has_exact_whole_tokens(database: Database, command: Command) -> None:
    fill(database)
    status, out, _ = command("report", "--format", "json")
    assert status == 0
    common = {"model": "tiny"}
    assert json.loads(out) == [
        {"caller": "acme"}
        | common
        | {"requests": 2, "complete": 1, "partial": 1, "open": 0, "free": 1}
        | {"prompt_tokens": 14, "completion_tokens": 150},
        {"caller": "umbrella"}
        | common
        | {"requests": 1, "complete": 0, "partial": 0, "open": 1, "free": 0}
        | {"prompt_tokens": 7, "completion_tokens": 30},
    ]
    status, out, _ = command("report", "--by", "day", "--format", "csv")
    (line,) = csv.DictReader(io.StringIO(out))
    assert (line["day"], line["completion_tokens"]) == ("2026-05-28", "180")
    status, out, _ = command("report")
    assert "180" in out.rstrip().splitlines()[-1]


def test_a_report_is_of_a_time(database: Database, command: Command) -> None:
    fill(database)
    for words, lines in (
        (("--since", "2026-05-28"), 1),
        (("--since", "2026-05-29"), 0),
        (("--until", "2026-05-28"), 0),
        (("--until", "2026-05-28T23:59:59Z"), 1),
    ):
        status, out, _ = command("report", "--by", "model", "--format", "json", *words)
        assert (status, len(json.loads(out))) == (0, lines)


def test_a_model_that_is_a_formula_is_none_in_a_spreadsheet(
    database: Database, command: Command
) -> None:
    one = opened()
    bad = type(one)(one.request_id, one.caller, one.key, "=cmd|'/c calc'!A1", one.route, one.at)
    with database.write() as connection:
        admit(connection, "g1", [Asked(bad, "g1-1")])
    assert "\n'=cmd" in command("report", "--by", "model", "--format", "csv")[1]


def test_a_fleet_that_cannot_be_read_tells_nothing_about_loss(
    database: Database, command: Command
) -> None:
    del database
    status, out, _ = command("mark")
    assert (status, out) == (4, "gpu-a: the connection was refused\n")
    status, out, _ = command("reconcile")
    assert status == 4
    assert "unreadable" in out
    assert out.endswith("loss: cannot be told\n")


def test_a_mark_is_on_the_disk_when_it_is_told(
    database: Database, command: Command, disk: Disk
) -> None:
    take = partial(marks.take, page=FakeServer(), settle=0.0)
    for word in ("mark", "reconcile"):
        del disk.synced[:]
        command(word, take=take)
        assert disk.synced == (["lifeguard.db-wal"] if database.kind == "sqlite" else [])


def test_marks_hold_what_was_counted_on_both_sides(database: Database, fleet: Path) -> None:
    backends = load(fleet).backends
    server = FakeServer(generation=5000, prompt=1000, finished=50)
    clock = iter((T0 + 1, T0 + 2, T0 + 3))

    def take() -> Mark:
        (mark,) = marks.take(database, backends, page=server, wall=lambda: next(clock), settle=0.0)
        return mark

    first = take()
    assert marks.earlier(database, first, None) is None
    fill(database)
    server.generation, server.prompt, server.finished = 5180, 1028, 52
    second = take()
    before = marks.earlier(database, second, None)
    assert before == first
    legs = marks.legs_between(database, before, second)
    result = compared(before, second, legs)
    assert (result.finding, result.theirs, result.ours) == (Finding.COUNTED, 180, 180)
    assert (result.their_prompt, result.our_prompt) == (28, 28)
    server.fails = True
    third = take()
    assert marks.earlier(database, third, None) == second
    assert marks.earlier(database, third, T0) == first
    assert third.why == "the connection was refused"
    assert marks.take(database, [], page=server) == []


@pytest.mark.parametrize(("counted", "status"), [(1000, 0), (990, 1)])
def test_the_status_tells_a_loss(
    database: Database,
    command: Command,
    counted: int,
    status: int,
) -> None:
    server = FakeServer()
    take = partial(marks.take, page=server, wall=lambda: T0 + server.generation, settle=EVERY)
    assert command("mark", take=take)[0] == 0
    one = opened()
    with database.write() as connection:
        admit(connection, "g1", [Asked(one, "g1-1")])
        leg = Leg(1, "gpu-a", 7, counted, "x", T0)
        book.book(connection, [Booking(one, "g1-1", 7, counted, State.COMPLETE, "", T0, (leg,))])
    server.generation, server.prompt, server.finished = 1000, 7, 1
    found, out, _ = command("reconcile", take=take)
    assert (found, out.splitlines()[-1]) == (status, f"loss: {(1000 - counted) / 10:.4f} %")
    server.generation += 1
    assert command("reconcile", "--most", "100", "--since", "2026-05-28", take=take)[0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["report", "--since", "monday"], "'monday' is no time; write 2026-03-01 or"),
        (["report", "--by", "colour"], "'colour' is not of caller, model, day"),
        (["report", "--by", "day,day"], "'day,day' names one twice"),
        (["reconcile", "--most", "lots"], "'lots' is not a number from 0 to 100"),
        (["reconcile", "--most", "101"], "'101' is not a number from 0 to 100"),
        (["reconcile", "--most", "nan"], "'nan' is not a number from 0 to 100"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_a_bad_command_is_told_in_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_settings_that_are_missing_and_databases_that_do_not_answer_are_told(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--config.file", str(tmp_path / "no.yml")]) == 2
    assert main(["report", "--config.file", str(fleet)]) == 2
    assert "gateway: is required, or --database" in capsys.readouterr().err
    assert main(["report", "--config.file", str(fleet), "--database", "nope"]) == 2
    assert capsys.readouterr().err == "--database: is not an SQLAlchemy URL\n"
    file = tmp_path / "typo.db"
    assert main(["report", "--config.file", str(fleet), "--database", f"sqlite:///{file}"]) == 3
    assert capsys.readouterr().err == f"--database: {file}: there is no such file\n"
    assert not file.exists()
    file.write_text("this is no database")
    assert main(["report", "--config.file", str(fleet), "--database", f"sqlite:///{file}"]) == 3
    assert "--database: the database does not answer" in capsys.readouterr().err
    with fleet.open("a") as settings:
        settings.write(f"gateway: {{admin_token_file: t, database: 'sqlite:///{file}'}}\n")
    assert main(["report", "--config.file", str(fleet)]) == 3
    expected = f"{fleet}: gateway.database: the database does not answer"
    assert capsys.readouterr().err.startswith(expected)
