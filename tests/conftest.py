"""The order of all tests, and the databases: SQLite files, and one real PostgreSQL for a process.

Files of tests are given to processes that run side by side, so the longest ones come first: nobody
is to wait for one at the end. Those are the marked ones, and then, as a rule, those of few tests.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from demo.postgresql import PostgreSQL

# A machine that is busy is no failure.
hypothesis.settings.register_profile(
    "lifeguard", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("lifeguard")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, tests[item.path]))


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
