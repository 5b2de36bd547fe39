"""One at a time, in order, but the urgent first."""

import threading
from pathlib import Path

import pytest

from remediator.store import Store
from remediator.turns import Turns
from tests.fleet.listeners import eventually
from tests.remediator.making import alert, at


def waiting(turns: Turns) -> int:
    return len(turns._urgent) + len(turns._others)


@pytest.fixture
def order() -> list[str]:
    return []


@pytest.fixture
def started(order: list[str]) -> list[threading.Thread]:
    """Six writers that came one after the other while somebody wrote, of whom two are urgent."""
    turns, threads = Turns(), []

    def write(name: str, *, urgent: bool) -> None:
        with turns.turn(urgent=urgent):
            order.append(name)

    with turns.turn(urgent=False):
        for name in ("a", "b", "URGENT c", "d", "URGENT e", "f"):
            threads.append(
                threading.Thread(
                    target=write, args=(name,), kwargs={"urgent": "URGENT" in name}, daemon=True
                )
            )
            before = waiting(turns)
            threads[-1].start()
            eventually(lambda before=before: waiting(turns) > before)  # type: ignore[misc]
        assert order == []
    return threads


def test_the_urgent_go_first_and_all_in_their_order(
    order: list[str], started: list[threading.Thread]
) -> None:
    for thread in started:
        thread.join(60.0)
    assert order == ["URGENT c", "URGENT e", "a", "b", "d", "f"]


def test_whoever_fails_makes_room() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="lost"), turns.turn(urgent=True):
        raise ValueError("lost")
    with turns.turn(urgent=False):
        pass


def test_a_notification_is_urgent(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'remediator.db'}")
    turns = store.database._turns
    assert isinstance(turns, Turns)
    noting = threading.Thread(target=store.incidents.note, args=((alert(),), at(0)), daemon=True)
    with turns.turn(urgent=False):
        noting.start()
        assert eventually(lambda: len(turns._urgent) == 1)
    noting.join(60.0)
    assert store.incidents.open() != ()
    store.close()
