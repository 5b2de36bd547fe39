"""The thread that brings SQLite's file up to what was written ahead of it."""

import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.database import BUSY_SECONDS
from gateway.ledger.beat import Beat
from gateway.ledger.checkpoints import Checkpoints
from gateway.ledger.database import LONGEST_LOG, Database, StorageError
from gateway.ledger.ledger import Ledger
from remediator.database import Database as Remediators
from tests.gateway.ledger.making import T0

PAGE = 4096
# What SQLite does without being told.
USUAL_LOG = 1000 * PAGE
MEBIBYTE = 1 << 20


class FailingDatabase(Database):
    """Makes no checkpoint while it has a reason not to."""

    why = ""

    def checkpoint(self) -> int:
        if self.why:
            raise StorageError(self.why)
        return super().checkpoint()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[FailingDatabase]:
    opened = FailingDatabase(f"sqlite:///{tmp_path / 'gateway.db'}")
    yield opened
    opened.close()


def log_bytes(folder: Path) -> int:
    return (folder / "gateway.db-wal").stat().st_size


def in_the_file(folder: Path) -> list[bytes]:
    """The progress that the file holds without its log."""
    shutil.copy(folder / "gateway.db", folder / "copy.db")
    copy = sqlite3.connect(folder / "copy.db")
    found = [row[0] for row in copy.execute("SELECT progress FROM gateways")]
    copy.close()
    for file in folder.glob("copy.db*"):
        file.unlink()
    return found


def test_commits_leave_it_to_the_thread(database: Database, tmp_path: Path) -> None:
    Checkpoints(database).make()
    beat = Beat(database, "ours")
    for number in range(8):
        beat.alone(bytes([number]) * MEBIBYTE, T0)
    assert log_bytes(tmp_path) > USUAL_LOG + MEBIBYTE
    assert in_the_file(tmp_path) == []
    Checkpoints(database).make()
    assert in_the_file(tmp_path) == [b"\x07" * MEBIBYTE]


def test_after_each_the_log_begins_anew(database: Database, tmp_path: Path) -> None:
    beat, checkpoints = Beat(database, "ours"), Checkpoints(database)
    for number in range(20):
        beat.alone(bytes([number]) * MEBIBYTE, T0)
        checkpoints.make()
    assert log_bytes(tmp_path) < 3 * MEBIBYTE


def test_without_the_thread_the_log_is_bounded_all_the_same(
    database: Database, tmp_path: Path
) -> None:
    beat, longest = Beat(database, "ours"), LONGEST_LOG * PAGE
    lengths = []
    for number in range(2 * longest // (4 * MEBIBYTE)):
        beat.alone(bytes([number]) * 4 * MEBIBYTE, T0)
        lengths.append(log_bytes(tmp_path))
    assert longest < max(lengths) < longest * 1.2


def test_it_waits_for_nobody_who_writes_or_reads(database: Database, tmp_path: Path) -> None:
    Beat(database, "ours").alone(b"1", T0)
    began = time.monotonic()
    with database.read() as reading, database.write() as writing:
        reading.exec_driver_sql("SELECT * FROM gateways").all()
        writing.exec_driver_sql("UPDATE gateways SET beat = 7")
        Checkpoints(database).make()
        assert in_the_file(tmp_path) == [b"1"]
    assert time.monotonic() - began < BUSY_SECONDS


def test_what_the_driver_says_is_told_as_always(database: Database) -> None:
    database.close()
    assert database.folder
    (database.folder / "gateway.db").write_bytes(b"this is no database at all" * PAGE)
    with pytest.raises(StorageError, match=r"does not answer as it should: file is not a database"):
        Database.checkpoint(database)
    (database.folder / "gateway.db").unlink()


def test_a_failure_is_told_once_until_it_is_over(
    database: FailingDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = Checkpoints(database)
    with caplog.at_level(logging.WARNING, "gateway"):
        for why in ("disk full", "disk full", "no such file", "", "no such file"):
            database.why = why
            checkpoints.make()
    assert [record.getMessage() for record in caplog.records] == [
        "event=ledger_not_checkpointed why='disk full'",
        "event=ledger_not_checkpointed why='no such file'",
        "event=ledger_not_checkpointed why='no such file'",
    ]


def test_a_ledger_on_a_file_has_the_thread_as_long_as_it_is_open(
    database_url: str, tmp_path: Path
) -> None:
    before = set(threading.enumerate())  # another test's ledger may still be open
    ours = Ledger(database_url, tmp_path / "journal", takeover_after=60.0)
    ours.start()
    is_file = database_url.startswith("sqlite")
    assert ("ledger-checkpoints" in names_of_threads(before)) == is_file
    ours.shut()
    assert "ledger-checkpoints" not in names_of_threads(before)


def names_of_threads(but: set[threading.Thread]) -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread not in but}


def test_who_has_no_such_thread_leaves_it_to_sqlite(tmp_path: Path, database: Database) -> None:
    remediators = Remediators(f"sqlite:///{tmp_path / 'remediator.db'}")
    for one, pages in ((remediators, 1000), (database, LONGEST_LOG)):
        with one.read() as connection:
            assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar_one() == pages
    remediators.close()
