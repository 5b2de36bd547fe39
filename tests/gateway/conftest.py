"""Databases that gateways share: SQLite files, and a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.postgresql import PostgreSQL
from tests.gateway.databases import TestedDatabase


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database; a test that takes it runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gateway.db'}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.database()


@pytest.fixture
def shared(shared_url: str) -> Iterator[TestedDatabase]:
    opened = TestedDatabase(shared_url)
    yield opened
    opened.close()
