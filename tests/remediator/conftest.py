"""The remediator's database."""

from collections.abc import Iterator

import pytest

from remediator.store import Store


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    opened = Store(database_url)
    yield opened
    opened.close()
