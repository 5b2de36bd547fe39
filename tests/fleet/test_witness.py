"""What a server says of itself besides its page, over real sockets."""

import pytest

from fleet.fetch import Fetcher
from fleet.witness import Witness
from tests.fleet.listeners import Vllm


@pytest.fixture
def witness(fetcher: Fetcher) -> Witness:
    return Witness(fetcher)


@pytest.mark.parametrize(
    ("said", "paused"),
    {
        '{"is_paused": true}': True,
        '{"is_paused": false}': False,
        '{"is_paused": "yes"}': None,
        '{"is_paused": 1}': None,
        '{"error": "x"}': None,
        "[]": None,
        "<html>": None,
        "[" * 100_000: None,
    }.items(),
)
def test_only_a_plain_yes_or_no_is_taken(
    said: str, paused: bool | None, vllm: Vllm, witness: Witness
) -> None:
    vllm.paused = said
    assert witness.paused(timeout=5.0) is paused


def test_a_server_without_the_page_is_asked_once_for_each_process(
    vllm: Vllm, witness: Witness
) -> None:
    assert [witness.paused(timeout=5.0) for _ in range(3)] == [None, None, None]
    assert vllm.paths()["/is_paused"] == 1
    witness.forget()
    vllm.paused = '{"is_paused": true}'
    assert witness.paused(timeout=5.0) is True


@pytest.mark.parametrize(
    ("health", "dead"),
    {"200 OK": False, "503 Service Unavailable": True, "500 Oops": False, "404 No": False}.items(),
)
def test_only_503_says_that_the_engine_is_dead(
    health: str, dead: bool, vllm: Vllm, witness: Witness
) -> None:
    vllm.health = health
    assert witness.dead(timeout=5.0) is dead
