"""The migrations: from each version that was released to what the program knows now."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from demo.postgresql import PostgreSQL
from fleet.settings import Mode
from remediator import tables
from remediator.__main__ import main
from remediator.attempts import UnderWayError
from remediator.database import TABLES, StorageError
from remediator.incident import AttemptState, Origin
from remediator.store import Store
from tests.remediator.making import alert, at
from tests.remediator.stage import planned

FOREVER = at(1e6)
# As the version without migrations made them, word for word.
OLD_TABLES = "tables-0.1.{}.sql"
RECORDINGS = Path(__file__).parent / "recordings"
OLD_ROWS = """
INSERT INTO incidents VALUES (1, '7bdcfff547bc4d61', '2026-03-01 12:00:00.000000', NULL,
  'VLLMEngineStuck', 'gpu-a', '0', 'restart', 'stuck', 'open', '2026-03-01 12:00:01.000000',
  '2026-03-01 12:00:01.000000', '2026-03-01 12:00:01.000000', NULL, 'hold', 'silenced',
  '2026-03-01 12:00:31.000000', 'so');
INSERT INTO decisions VALUES (1, 1, '2026-03-01 12:00:01.000000', 'hold', 'silenced', NULL, 'so');
INSERT INTO attempts (id, incident_id, backend, mode, state, planned_at, acting_at, output, why)
  VALUES (7, 1, 'gpu-a', 'act', 'acting', '2026-03-01 12:00:02', '2026-03-01 12:00:03', 'x', '');
"""


def made_by_the_last_version(url: str) -> None:
    engine = create_engine(url)
    old_tables = (RECORDINGS / OLD_TABLES.format(engine.dialect.name)).read_text()
    with engine.begin() as connection:
        for statement in f"{old_tables};{OLD_ROWS}".split(";"):
            if statement.strip():
                connection.execute(text(statement))
    engine.dispose()


def differences(store: Store) -> list[object]:
    with store.database.read() as connection:
        # Alembic cannot compare an empty default on SQLite.
        defaults = {"compare_server_default": connection.dialect.name == "postgresql"}
        context = MigrationContext.configure(connection, opts=defaults)
        return list(compare_metadata(context, tables.metadata))


def test_the_migrated_tables_are_those_that_the_program_knows(store: Store) -> None:
    assert differences(store) == []


def test_a_difference_would_be_seen(store: Store) -> None:
    with store.database.write() as connection:
        connection.execute(text("ALTER TABLE holds DROP COLUMN held_by"))
        connection.execute(text("DROP INDEX attempts_of_backend"))
    assert len(differences(store)) == 2


def test_a_database_of_the_version_before_keeps_every_row(database_url: str) -> None:
    made_by_the_last_version(database_url)
    store = Store(database_url)
    assert differences(store) == []
    (incident,) = store.incidents.due(FOREVER)
    assert (incident.fingerprint, incident.why) == (alert().fingerprint, "so")
    assert (incident.origin, incident.asked_by, incident.answers) == (Origin.ALERT, "", ())
    (line,) = store.incidents.newest_decisions(9)
    assert (line.incident_id, line.why, line.answers) == (1, "so", ())
    (attempt,) = store.attempts.under_way()
    assert (attempt.id, attempt.state, attempt.acting_at) == (7, AttemptState.ACTING, at(3))
    assert (attempt.output, attempt.drained, attempt.shadow_outcome) == ("x", "", None)
    with pytest.raises(UnderWayError):
        planned(store, incident, Mode.ACT, None, at(4))
    store.close()
    Store(database_url).close()  # and it is found as it was left


def test_every_revision_can_be_where_a_database_stands(database_url: str) -> None:
    made_by_the_last_version(database_url)
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('1')"))
    engine.dispose()
    store = Store(database_url)
    assert len(store.incidents.open()) == 1
    store.close()


def test_a_database_of_a_newer_version_is_left_alone(database_url: str) -> None:
    store = Store(database_url)
    with store.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '77'"))
    store.close()
    with pytest.raises(StorageError) as raised:
        Store(database_url)
    assert str(raised.value) == (
        "was last used by a newer version of the program (its revision is '77', this version "
        "knows none after '2')"
    )


def test_the_program_says_so_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'remediator.db'}"
    store = Store(url)
    with store.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '77'"))
    store.close()
    (tmp_path / "token").write_text("secret\n")
    file = tmp_path / "fleet.yml"
    file.write_text(
        "backends: [{name: gpu-a, url: 'http://127.0.0.1:1'}]\n"
        "remediator: {mode: act, token_file: token, alertmanager: 'http://127.0.0.1:1'}\n"
    )
    assert main(["--config.file", str(file)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{file}: remediator.database: was last used by a newer version")
    assert told.count("\n") == 1


OPENS = "import sys; from remediator.store import Store; Store(sys.argv[1]).close()"


@pytest.mark.parametrize("old", [False, True], ids=["new", "of the version before"])
def test_several_that_start_at_once_on_one_database(database_url: str, *, old: bool) -> None:
    if old:
        made_by_the_last_version(database_url)
    processes = [
        subprocess.Popen([sys.executable, "-c", OPENS, database_url], stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    told = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, told
    store = Store(database_url)
    assert differences(store) == []
    store.close()


def test_whoever_comes_second_waits_for_the_first_on_postgresql(postgresql: PostgreSQL) -> None:
    url = postgresql.database()
    engine = create_engine(url)
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            TABLES.upgrade(connection)
            second = pool.submit(Store, url)
            with pytest.raises(TimeoutError):
                second.result(0.5)
        store = second.result(20)
    engine.dispose()
    assert differences(store) == []
    store.close()


def test_a_migration_that_breaks_leaves_nothing_half_done(database_url: str) -> None:
    made_by_the_last_version(database_url)
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE replicas (in_the_way INTEGER)"))
    with pytest.raises(StorageError):
        Store(database_url)
    with engine.connect() as connection:
        found = inspect(connection)
        assert not found.has_table("holds")
        assert not found.has_table(TABLES.version_table)
        assert "origin" not in {column["name"] for column in found.get_columns("incidents")}
    engine.dispose()


def test_the_programs_log_is_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root, ours = logging.getLogger(), logging.getLogger("remediator")
    before = (list(root.handlers), root.level, ours.level, ours.disabled)
    with caplog.at_level(logging.INFO):
        Store(f"sqlite:///{tmp_path / 'remediator.db'}").close()
    assert (list(root.handlers), root.level, ours.level, ours.disabled) == before
    assert [record.getMessage() for record in caplog.records] == ["event=database_upgraded now=2"]
