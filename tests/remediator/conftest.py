"""The databases that the remediator is tested on: SQLite files, and a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.postgresql import PostgreSQL
from remediator.store import Store


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database; a test that takes it runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'remediator.db'}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.database()


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    storage = Store(database_url)
    yield storage
    storage.close()
