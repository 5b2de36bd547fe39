"""The ledger's tables, made by migrations."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text

from gateway.kept import resumptions
from gateway.ledger.database import Database, StorageError
from gateway.ledger.tables import VERSION_TABLE, metadata


def test_the_migrations_come_to_what_the_program_knows(
    database: Database, database_url: str
) -> None:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": True}
        )
        assert resumptions.metadata is metadata
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    assert database.folder is None or database.folder.is_dir()


def test_several_gateways_may_begin_at_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for database in pool.map(Database, [database_url] * 4):
            database.close()


def test_a_file_is_waited_for_that_another_one_is_making(tmp_path: Path) -> None:
    file = tmp_path / "gateway.db"
    making = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    making.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        database = pool.submit(Database, f"sqlite:///{file}")
        with pytest.raises(TimeoutError):
            database.result(0.3)
        making.execute("ROLLBACK")
        database.result().close()
    making.close()


def test_a_file_that_another_one_keeps_locked_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    file = tmp_path / "gateway.db"
    making = sqlite3.connect(file, isolation_level=None)
    making.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="database is locked"):
        Database(f"sqlite:///{file}")
    making.close()


def test_a_ledger_of_a_newer_version_is_not_touched(database_url: str) -> None:
    Database(database_url).close()
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '999'"))
    engine.dispose()
    with pytest.raises(StorageError, match=r"newer version .* '999'"):
        Database(database_url)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite://", "an SQLite database in memory would forget the bill"),
        ("nonsense", "is not an SQLAlchemy URL"),
        ("mysql://u:secret@h/d", "is of kind mysql; sqlite and postgresql+psycopg are known"),
    ],
)
def test_a_bad_url_is_told_without_its_secret(url: str, sentence: str) -> None:
    with pytest.raises(StorageError) as error:
        Database(url)
    assert str(error.value) == sentence


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open database file"):
        Database(f"sqlite:///{tmp_path}/no/where.db")
