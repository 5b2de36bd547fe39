"""A request that is said to be in hand is asked for again for a moment."""

import asyncio

import pytest

from gateway.bill import Admission, BillError, Opened
from gateway.booking import admitted

SECONDS = (0.0, 0.0)
OPENED = Opened("r1", "alice", "r1", "tiny", "/v1/completions", 0.0)
BUSY, NEW, AGAIN = Admission.BUSY, Admission.NEW, Admission.AGAIN


class Says:
    """A bill that says one thing after the other."""

    def __init__(self, *said: Admission) -> None:
        self.left = list(said)

    async def admit(self, opened: Opened) -> Admission:
        assert opened == OPENED
        return self.left.pop(0)


@pytest.mark.parametrize(
    ("said", "told", "left"),
    [
        pytest.param([NEW, BUSY], NEW, 1, id="what is new is let in at once"),
        pytest.param([AGAIN, NEW], AGAIN, 1, id="what was answered is said so at once"),
        pytest.param([BUSY, NEW, BUSY], NEW, 1, id="what was let go of meanwhile is let in"),
        pytest.param([BUSY, BUSY, AGAIN], AGAIN, 0, id="the last word counts"),
        pytest.param([BUSY, BUSY, BUSY, NEW], BUSY, 1, id="what stays in hand is busy"),
    ],
)
def test_it_is_asked_again_while_it_is_busy(
    said: list[Admission], told: Admission, left: int
) -> None:
    bill = Says(*said)
    assert asyncio.run(admitted(bill.admit, OPENED, SECONDS)) is told
    assert len(bill.left) == left


def test_what_the_bill_raises_is_raised() -> None:
    async def admit(opened: Opened) -> Admission:
        raise BillError(opened.request_id)

    with pytest.raises(BillError, match="r1"):
        asyncio.run(admitted(admit, OPENED, SECONDS))
