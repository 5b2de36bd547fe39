"""The databases that the ledger is tested on: SQLite files, and a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.postgresql import PostgreSQL
from gateway.ledger.database import Database


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database; a test that takes it runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gateway.db'}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.database()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()
