import asyncio

from gateway.bill import Admission, Opened
from gateway.letting_in import BOOKING_SECONDS, let_in

OPENED = Opened("req-1", "alice", "req-1", "m", "/v1/completions", 0.0)


class Booking:
    """A ledger that has a request in hand for so many looks more."""

    def __init__(self, looks: int, then: Admission = Admission.NEW) -> None:
        self.left = looks
        self.then = then

    async def admit(self, opened: Opened) -> Admission:
        assert opened is OPENED
        self.left -= 1
        return self.then if self.left < 0 else Admission.BUSY


def test_what_is_given_back_in_a_moment_is_waited_for() -> None:
    for looks in range(len(BOOKING_SECONDS) + 1):
        assert asyncio.run(let_in(Booking(looks).admit, OPENED)) is Admission.NEW


def test_what_stays_busy_is_said_to_be_and_nothing_else_is_asked_twice() -> None:
    assert asyncio.run(let_in(Booking(99).admit, OPENED)) is Admission.BUSY
    known = Booking(0, Admission.AGAIN)
    assert asyncio.run(let_in(known.admit, OPENED)) is Admission.AGAIN
    assert known.left == -1
