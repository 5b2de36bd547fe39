"""A database that gateways share."""

from collections.abc import Iterator

import pytest

from tests.gateway.databases import TestedDatabase


@pytest.fixture
def shared(database_url: str) -> Iterator[TestedDatabase]:
    opened = TestedDatabase(database_url)
    yield opened
    opened.close()
