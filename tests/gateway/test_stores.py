"""What a gateway keeps, opened as it opens it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.settings import parse
from gateway.ask import Route
from gateway.kept import Left
from gateway.question import Question
from gateway.seal import Seal
from gateway.stores import Stores
from tests.gateway.ledger.fakes import Disk

SEAL = Seal((b"k" * 32,), 600.0)
QUESTION = Question("r1", "alice", "k", Route.CHAT, b"{}", False, 7)  # noqa: FBT003
LOG = "gateway.db-wal"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    ours = parse(
        "backends: [{name: a, url: 'http://a:8000'}]\n"
        "gateway:\n"
        "  admin_token_file: admin.token\n"
        f"  database: sqlite:///{tmp_path / 'gateway.db'}\n"
        f"  journal_folder: {tmp_path / 'journal'}\n",
        tmp_path / "fleet.yml",
    ).gateway
    assert ours is not None
    stores = Stores(ours, SEAL)
    yield stores
    stores.ledger.shut()


def test_an_interrupted_stream_and_a_question_are_on_the_disk_before_anybody_is_told(
    stores: Stores, disk: Disk
) -> None:
    now = time.time()
    stores.kept.keep([Left(SEAL.token("alice", now), "alice", "r1", b"{}")], now)
    assert disk.synced == [LOG]
    assert stores.questions.keep(QUESTION, now)
    assert disk.synced == [LOG] * 2
