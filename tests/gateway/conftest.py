"""A database that gateways share, a disk, and a browser."""

import os
from collections.abc import Iterator

import pytest

from tests.exporter.browser import Browser
from tests.gateway.databases import TestedDatabase
from tests.gateway.ledger.fakes import Disk


@pytest.fixture
def shared(database_url: str) -> Iterator[TestedDatabase]:
    opened = TestedDatabase(database_url)
    yield opened
    opened.close()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(os, "fdatasync", disk)
    return disk


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    own = Browser(tmp_path_factory.mktemp("browser"))
    yield own
    own.close()
