"""The ledger's database."""

from collections.abc import Iterator

import pytest

from gateway.ledger.database import Database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()
