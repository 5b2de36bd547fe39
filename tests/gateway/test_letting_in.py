import asyncio

from gateway.ask import Route, ask
from gateway.bill import Admission, BillError, Opened
from gateway.heads import Head
from gateway.letting_in import BOOKING_SECONDS, let_in
from gateway.relay import Generation, Wanted
from gateway.reply import Reply
from gateway.stream import Stream
from tests.gateway.fakes import HeardConnection, OpenBill, office

BODY = b'{"model": "m", "prompt": "?", "stream": true}'

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


class LockedBill(OpenBill):
    """One that does not answer until it refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.gives_up = asyncio.Event()

    async def admit(self, opened: Opened) -> Admission:
        del opened
        await self.gives_up.wait()
        raise BillError("the database is locked")


def test_nothing_is_sent_before_the_bill_has_let_it_in() -> None:
    async def answered() -> bytes:
        one = office("gpu-a", gateway="keep_alive: 200ms")
        one.bill = bill = LockedBill()
        asked = ask(Route.COMPLETIONS, BODY, forbid_resume=False)
        stream, connection = Stream(asked, "req-1", 1), HeardConnection()
        head = Head("POST", Route.COMPLETIONS, {}, "req-1")
        wanted = Wanted(stream, head, "alice", "req-1")
        generation = Generation(one, wanted, Reply(connection, keep_alive=True))
        running = asyncio.create_task(generation.run())
        await asyncio.sleep(0)
        generation.sweep(one.now() + 1.0)
        assert connection.sent == b""
        bill.gives_up.set()
        await running
        return connection.sent

    sent = asyncio.run(answered())
    assert sent.startswith(b"HTTP/1.1 503 ")
    assert sent.count(b"HTTP/1.1") == 1
