"""What SQLite would do at a commit, done apart: syncs, and bringing the file up to the log."""

import asyncio
import errno
import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from fleet.database import BUSY_SECONDS
from gateway.bill import Admission
from gateway.ledger.admit import Answer, Asked
from gateway.ledger.beat import Beat
from gateway.ledger.chore import Chore
from gateway.ledger.database import LONGEST_LOG, Database, StorageError, SyncedDatabase
from gateway.ledger.door import Door
from gateway.ledger.journal import Journal
from gateway.ledger.ledger import Ledger
from gateway.ledger.upkeep import MOST_AT_ONCE, checkpoint
from remediator.database import Database as Remediators
from tests.gateway.ledger.fakes import Disk
from tests.gateway.ledger.making import T0, closed, killed, opened

PAGE = 4096
# What SQLite does without being told.
USUAL_LOG = 1000 * PAGE
MEBIBYTE = 1 << 20
WAIT = 30.0
OFTEN = 0.001
LOOK = 0.2


class Doing:
    """Something that does not work as long as it has a reason not to."""

    def __init__(self) -> None:
        self.why = ""
        self.times = 0
        self.done = threading.Event()

    def __call__(self) -> None:
        self.times += 1
        self.done.set()
        if self.why:
            raise StorageError(self.why)


class BusyDatabase(Database):
    """One whose log has these lengths when it is brought up to it."""

    def __init__(self, url: str, lengths: Sequence[int]) -> None:
        super().__init__(url)
        self.lengths = lengths
        self.times = 0

    def checkpoint(self) -> int:
        self.times += 1
        return self.lengths[self.times - 1]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'gateway.db'}")
    yield database
    database.close()


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
    checkpoint(database)
    beat = Beat(database, "ours")
    for number in range(8):
        beat.alone(bytes([number]) * MEBIBYTE, T0)
    assert log_bytes(tmp_path) > USUAL_LOG + MEBIBYTE
    assert in_the_file(tmp_path) == []
    checkpoint(database)
    assert in_the_file(tmp_path) == [b"\x07" * MEBIBYTE]


def test_after_each_the_log_begins_anew(database: Database, tmp_path: Path) -> None:
    beat = Beat(database, "ours")
    for number in range(20):
        beat.alone(bytes([number]) * MEBIBYTE, T0)
        checkpoint(database)
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
        checkpoint(database)
        assert in_the_file(tmp_path) == [b"1"]
    assert time.monotonic() - began < BUSY_SECONDS


def test_what_the_driver_says_is_told_as_always(database: Database) -> None:
    database.close()
    assert database.folder
    (database.folder / "gateway.db").write_bytes(b"this is no database at all" * PAGE)
    with pytest.raises(StorageError, match=r"does not answer as it should: file is not a database"):
        Database.checkpoint(database)
    (database.folder / "gateway.db").unlink()


def test_who_commits_leaves_the_sync_to_the_thread(database: Database, disk: Disk) -> None:
    beat = Beat(database, "ours")
    beat.alone(b"0", T0)
    database.sync()
    del disk.synced[:]
    database.sync()
    assert disk.synced == []  # nothing was committed since
    beat.alone(b"1", T0)
    assert disk.synced == []
    database.sync()
    assert disk.synced == ["gateway.db-wal"]
    with database.write() as connection:
        beat.within(connection, b"2", T0)
    database.sync()
    assert disk.synced == ["gateway.db-wal"] * 2
    assert Door(database, "ours").let_in(Asked(opened(), "ours-1")) == Answer(Admission.NEW)
    database.sync()
    assert disk.synced == ["gateway.db-wal"] * 3
    with database.read() as connection:
        normal = 1
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == normal


def test_what_could_not_be_synced_is_told_and_tried_again(database: Database, disk: Disk) -> None:
    Beat(database, "ours").alone(b"1", T0)
    disk.fault = errno.EIO
    for _ in range(2):
        with pytest.raises(StorageError, match=r"gateway\.db-wal: cannot be synced: Input/output"):
            database.sync()
    disk.fault = 0
    database.sync()
    assert disk.synced == ["gateway.db-wal"]


def test_a_folder_where_sqlite_cannot_write_ahead_has_nothing_to_sync(
    database: Database, disk: Disk, tmp_path: Path
) -> None:
    Beat(database, "ours").alone(b"1", T0)
    (tmp_path / "gateway.db-wal").unlink()
    database.sync()
    assert disk.synced == []


def test_who_has_no_thread_for_it_syncs_after_each_commit(tmp_path: Path, disk: Disk) -> None:
    synced = SyncedDatabase(f"sqlite:///{tmp_path / 'gateway.db'}")
    del disk.synced[:]
    for number in range(1, 3):
        with synced.write() as connection:
            Beat(synced, str(number)).within(connection, b"", T0)
            assert len(disk.synced) == number - 1
        assert disk.synced == ["gateway.db-wal"] * number
    disk.fault = errno.EIO
    with pytest.raises(StorageError, match="cannot be synced"), synced.write() as connection:
        Beat(synced, "3").within(connection, b"", T0)
    synced.close()


def test_nobody_waits_for_somebody_elses_sync(
    database: Database, disk: Disk, tmp_path: Path
) -> None:
    synced = SyncedDatabase(f"sqlite:///{tmp_path / 'gateway.db'}")
    disk.goes_on.clear()
    disk.asked.clear()
    syncing = threading.Thread(target=Beat(synced, "theirs").alone, args=(b"1", T0))
    syncing.start()
    assert disk.asked.wait(WAIT)
    assert Door(database, "ours").let_in(Asked(opened(), "ours-1")) == Answer(Admission.NEW)
    assert syncing.is_alive()
    disk.goes_on.set()
    syncing.join(WAIT)
    synced.close()


def test_who_finds_it_being_synced_waits_until_it_is(database: Database, disk: Disk) -> None:
    Beat(database, "ours").alone(b"1", T0)
    disk.goes_on.clear()
    first, second = (threading.Thread(target=database.sync) for _ in range(2))
    first.start()
    assert disk.asked.wait(WAIT)
    second.start()
    second.join(LOOK)
    assert second.is_alive()
    disk.goes_on.set()
    for one in (first, second):
        one.join(WAIT)
    assert disk.synced == ["gateway.db-wal"]


def test_a_dead_gateways_journal_stays_until_its_bill_is_synced(tmp_path: Path, disk: Disk) -> None:
    url, folder = f"sqlite:///{tmp_path / 'gateway.db'}", tmp_path / "j"
    left = Journal(folder)
    left.open(opened(), left.run())
    killed(left)
    files = sorted(folder.iterdir())
    ledger = Ledger(url, folder, takeover_after=60.0)
    disk.fault = errno.EIO
    with pytest.raises(StorageError, match="cannot be synced"):
        ledger.start()
    assert set(files) <= set(folder.iterdir())
    disk.fault = 0
    ledger.start()
    assert not set(files) & set(folder.iterdir())
    ledger.shut()


def test_a_request_is_let_in_while_the_disk_syncs(tmp_path: Path, disk: Disk) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'gateway.db'}", tmp_path / "j", takeover_after=60.0)
    ledger.start()
    disk.goes_on.clear()
    for number in range(3):
        let_in = ledger.admit(opened(f"r{number}"))
        assert asyncio.run(asyncio.wait_for(let_in, WAIT)) == Admission.NEW
        ledger.close(f"r{number}", closed())
    assert ledger.drain(WAIT)
    disk.goes_on.set()
    ledger.shut()


def test_what_a_ledger_wrote_is_synced_when_it_is_shut(tmp_path: Path, disk: Disk) -> None:
    url = f"sqlite:///{tmp_path / 'gateway.db'}"
    other, ledger = Database(url), Ledger(url, tmp_path / "j", takeover_after=60.0)
    ledger.start()
    deadline = time.monotonic() + WAIT
    while not disk.synced:
        assert time.monotonic() < deadline
        time.sleep(OFTEN)
    disk.fault = errno.EIO
    assert asyncio.run(ledger.admit(opened())) == Admission.NEW
    ledger.close("r1", closed())
    assert ledger.drain(WAIT)
    disk.fault = 0
    del disk.synced[:]
    ledger.shut()
    assert "gateway.db-wal" in disk.synced
    other.close()


def test_a_journal_stays_where_the_bill_cannot_be_synced_at_the_end(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    url, folder = f"sqlite:///{tmp_path / 'gateway.db'}", tmp_path / "j"
    ledger = Ledger(url, folder, takeover_after=60.0)
    ledger.start()
    assert asyncio.run(ledger.admit(opened())) == Admission.NEW
    ledger.close("r1", closed())
    assert ledger.drain(WAIT)
    disk.fault = errno.EIO
    ledger.shut()
    assert list(folder.iterdir())
    assert "event=ledger_not_left why='" in caplog.text
    disk.fault = 0
    killed(ledger._journal)
    after = Ledger(url, folder, takeover_after=60.0)
    after.start()
    after.shut()
    assert not list(folder.iterdir())


def test_a_failure_is_told_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    doing = Doing()
    chore = Chore("checkpointed", OFTEN, doing)
    with caplog.at_level(logging.WARNING, "gateway"):
        for why in ("disk full", "disk full", "no such file", "", "no such file"):
            doing.why = why
            chore.make()
    assert [record.getMessage() for record in caplog.records] == [
        "event=ledger_not_checkpointed why='disk full'",
        "event=ledger_not_checkpointed why='no such file'",
        "event=ledger_not_checkpointed why='no such file'",
    ]


def test_whatever_goes_wrong_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    Chore("synced", OFTEN, partial(os.unlink, "/nowhere")).make()
    assert "event=ledger_not_synced why=" in caplog.text
    assert "No such file or directory: '/nowhere'" in caplog.text


@pytest.mark.parametrize(
    ("lengths", "times"),
    [([9, 9], 2), ([9, 12, 12], 3), ([9, -1], 2), ([1, 2, 3, 4, 5, 6, 7], MOST_AT_ONCE)],
)
def test_what_is_written_meanwhile_is_brought_to_the_file_too_but_not_for_ever(
    tmp_path: Path, lengths: list[int], times: int
) -> None:
    busy = BusyDatabase(f"sqlite:///{tmp_path / 'gateway.db'}", lengths)
    checkpoint(busy)
    busy.close()
    assert busy.times == times


def test_it_is_done_again_and_again_although_it_fails_and_once_more_at_the_end() -> None:
    doing = Doing()
    doing.why = "disk full"
    chore = Chore("synced", OFTEN, doing)
    chore.start()
    for _ in range(3):
        assert doing.done.wait(WAIT)
        doing.done.clear()
    doing.done.clear()
    chore.stop()
    assert doing.done.is_set()


def test_one_that_was_never_started_does_nothing_at_the_end() -> None:
    doing = Doing()
    Chore("synced", OFTEN, doing).stop()
    assert doing.times == 0


def test_a_ledger_on_a_file_has_the_threads_as_long_as_it_is_open(
    database_url: str, tmp_path: Path
) -> None:
    before = set(threading.enumerate())  # another test's ledger may still be open
    ours = Ledger(database_url, tmp_path / "journal", takeover_after=60.0)
    ours.start()
    of_files = {"ledger-synced", "ledger-checkpointed"}
    expected = of_files if database_url.startswith("sqlite") else set()
    assert names_of_threads(before) & of_files == expected
    ours.shut()
    assert not names_of_threads(before) & of_files


def names_of_threads(but: set[threading.Thread]) -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread not in but}


def test_who_has_no_such_thread_leaves_it_to_sqlite(tmp_path: Path, database: Database) -> None:
    remediators = Remediators(f"sqlite:///{tmp_path / 'remediator.db'}")
    for one, pages in ((remediators, 1000), (database, LONGEST_LOG)):
        with one.read() as connection:
            assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar_one() == pages
    remediators.close()
