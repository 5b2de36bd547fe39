"""A gateway's beat, in a group and alone."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import select

from demo.postgresql import PostgreSQL
from gateway.ledger.beat import Beat
from gateway.ledger.database import Database, StorageError
from gateway.ledger.tables import gateways, seconds
from tests.gateway.ledger.making import T0

WAIT = 30.0


def seen(database: Database) -> dict[str, tuple[int, float, bytes]]:
    with database.read() as connection:
        return {
            row.holder: (row.beat, seconds(row.seen_at), row.progress)
            for row in connection.execute(select(gateways))
        }


def within(database: Database, beat: Beat, progress: bytes, at: float) -> None:
    with database.write() as connection:
        beat.within(connection, progress, at)


def test_beats_count_up_whichever_way_they_go(database: Database) -> None:
    ours, other = Beat(database, "ours"), Beat(database, "other")
    ours.alone(b"", T0)
    assert seen(database) == {"ours": (0, T0, b"")}
    within(database, other, b"x", T0)
    ours.alone(b"1", T0 + 1.5)
    within(database, ours, b"2", T0 + 2)
    ours.alone(b"3\x00\xff", T0 + 3)
    assert seen(database) == {"ours": (3, T0 + 3, b"3\x00\xff"), "other": (0, T0, b"x")}


def test_one_that_was_taken_for_gone_is_there_again(database: Database) -> None:
    beat = Beat(database, "ours")
    beat.alone(b"1", T0)
    beat.alone(b"2", T0)
    with database.write() as connection:
        connection.execute(gateways.delete())
    beat.alone(b"3", T0 + 1)
    assert seen(database) == {"ours": (0, T0 + 1, b"3")}


def test_what_fails_is_told_in_one_sentence_without_values(database: Database) -> None:
    beat = Beat(database, "ours")
    with database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE gateways RENAME TO others")
    with pytest.raises(StorageError) as told:
        beat.alone(b"secret", T0)
    text = str(told.value)
    assert text.startswith("the database does not answer as it should: ")
    assert "secret" not in text
    assert "\n" not in text
    with database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE others RENAME TO gateways")
    beat.alone(b"1", T0)
    assert seen(database) == {"ours": (0, T0, b"1")}


def test_a_server_that_was_started_again_is_found_again() -> None:
    with PostgreSQL() as server:
        database = Database(server.database())
        beat = Beat(database, "ours")
        beat.alone(b"1", T0)
        server.stop()
        for _ in range(2):
            with pytest.raises(StorageError, match="does not answer as it should: "):
                beat.alone(b"2", T0)
        server.start()
        beat.alone(b"3", T0)
        assert seen(database) == {"ours": (1, T0, b"3")}
        database.close()


def test_one_alone_is_synced_as_a_group_is(database: Database) -> None:
    beat = Beat(database, "ours")
    beat.alone(b"1", T0)
    cursor = beat._alone._cursor
    assert cursor is not None
    asked = "SHOW synchronous_commit" if database.folder is None else "PRAGMA synchronous"
    cursor.execute(asked)
    with database.read() as connection:
        usual = connection.exec_driver_sql(asked).scalar_one()
    assert cursor.fetchone() == (usual,)


def test_a_file_that_is_closed_has_no_connection_left(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'gateway.db'}")
    writing = threading.Thread(target=Beat(database, "ours").alone, args=(b"1", T0))
    writing.start()
    writing.join()
    assert {path.name for path in tmp_path.iterdir()} > {"gateway.db"}
    database.close()
    # SQLite's last connection takes all but the database away.
    assert {path.name for path in tmp_path.iterdir()} == {"gateway.db"}


def test_a_server_has_no_connection_of_a_database_that_is_closed(postgresql: PostgreSQL) -> None:
    url = postgresql.database()
    database, other = Database(url), Database(url)
    Beat(database, "ours").alone(b"1", T0)
    assert connections(other) == 1 + 2
    database.close()
    deadline = time.monotonic() + WAIT
    while connections(other) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    other.close()


def connections(database: Database) -> int:
    with database.read() as connection:
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        return int(connection.exec_driver_sql(count).scalar_one())
