"""What keeps the gateway from being started, in one sentence."""

import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway import start
from gateway.ledger.database import Database
from gateway.ledger.journal import Journal
from tests.gateway.ledger.making import killed, opened

Start = Callable[..., tuple[int, str]]
BACKENDS = "backends: [{name: a, url: 'http://127.0.0.1:9'}]\n"


@pytest.fixture(autouse=True)
def _admin_token(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("secret-of-the-admin")
    (tmp_path / "admin.token").chmod(0o600)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def begin(tmp_path: Path, database: Path, capsys: pytest.CaptureFixture[str]) -> Start:
    """Starts one with these settings, and tells its exit status and what it said last."""
    file = tmp_path / "fleet.yml"

    def run(settings: str = "", listen: str = "127.0.0.1:0") -> tuple[int, str]:
        folder = "" if "journal_folder" in settings else f"journal_folder: {tmp_path / 'journal'}, "
        file.write_text(
            f"{BACKENDS}gateway: {{admin_token_file: admin.token, {folder}"
            f"database: 'sqlite:///{database}', {settings}}}\n"
        )
        arguments = ["--config.file", str(file), "--web.listen-address", listen]
        status = start.main(arguments, commands=())
        said = capsys.readouterr().err.strip().splitlines()[-1]
        return status, said.removeprefix(f"{file}: ").replace(str(tmp_path), "…")

    return run


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What a killed gateway left."""
    journal = Journal(tmp_path / "journal")
    journal.open(opened(), journal.run())
    killed(journal)
    (file,) = (tmp_path / "journal").iterdir()
    return file


@pytest.fixture
def locked(database: Path) -> Iterator[Callable[[], None]]:
    """Locks the database, as somebody does who stalls within a transaction."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        yield lambda: connection.execute("BEGIN IMMEDIATE").close()


def test_without_a_section_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet.yml").write_text(BACKENDS)
    assert start.main(["--config.file", str(tmp_path / "fleet.yml")], commands=()) == 2
    assert "fleet.yml: gateway: is required by vllm-gateway\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("database", "why"),
    [
        ("nope", "is not an SQLAlchemy URL"),
        (
            "mysql://me:secret@it/bill",
            "is of kind mysql; sqlite and postgresql+psycopg are known",
        ),
        ("'sqlite://'", "an SQLite database in memory would forget the bill"),
    ],
)
def test_a_database_that_is_none_is_found_by_the_check_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], database: str, why: str
) -> None:
    file = tmp_path / "fleet.yml"
    section = f"gateway: {{admin_token_file: admin.token, database: {database}}}\n"
    file.write_text(BACKENDS + section)
    for words in (["--config.check"], []):
        assert start.main(["--config.file", str(file), *words], commands=()) == 2
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"{file}: gateway.database: {why}\n")


def test_where_nobody_could_answer_a_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.yml"
    backends = BACKENDS.replace("name: a,", "name: a, kind: proxy,")
    file.write_text(f"{backends}gateway: {{admin_token_file: admin.token}}\n")
    assert start.main(["--config.file", str(file), "--config.check"], commands=()) == 2
    why = "none is of kind vllm, so nobody answers a request"
    assert capsys.readouterr().err == f"{file}: backends: {why}\n"


def test_a_folder_that_cannot_be_made(begin: Start) -> None:
    assert begin("journal_folder: /proc/here") == (
        2,
        "gateway.journal_folder: /proc/here: cannot be made: No such file or directory",
    )


def test_what_a_killed_one_left_and_cannot_be_read(begin: Start, left: Path) -> None:
    left.unlink()
    left.symlink_to(left.name)
    why = "Too many levels of symbolic links"
    assert begin() == (
        2,
        f"gateway.journal_folder: …/journal/{left.name}: cannot be recovered: {why}",
    )


def test_a_database_that_is_locked_when_what_a_killed_one_left_is_to_be_booked(
    begin: Start, left: Path, locked: Callable[[], None], database: Path
) -> None:
    Database(f"sqlite:///{database}").close()
    locked()
    why = "the database does not answer as it should: database is locked"
    assert begin() == (2, f"gateway.database: {why}")
    assert left.exists()


def test_an_address_that_is_taken(begin: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert begin("", listen) == (
            1,
            f"--web.listen-address: {listen}: Address already in use",
        )
