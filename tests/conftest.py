"""The databases that are tested on: SQLite files, and one real PostgreSQL for all tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.postgresql import PostgreSQL


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database; a test that takes it runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'lifeguard.db'}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.database()
