"""What is relayed as it is: on the bill before it is sent, commented only between events."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from gateway.ask import Route
from gateway.bill import Admission, BillError, Closed, End, LegEnd, Opened
from gateway.heads import Head
from gateway.office import Office
from gateway.passage import Errand, Passage
from gateway.reply import Reply
from gateway.upstream import Listener, UpstreamError
from tests.gateway.fakes import HeardConnection, OneLeg, OpenBill, PlayedLeg, office
from tests.gateway.responding import CREATED, EVENTS, JSON, completed, deltas

COMMENT = b": still here\n\n"


class WrittenBill(OpenBill):
    """Keeps what is written down, with how much the client had been sent then.

    Has no room after ``room`` tokens.
    """

    def __init__(self, connection: HeardConnection, room: int) -> None:
        super().__init__()
        self.connection, self.room = connection, room
        self.counted: list[tuple[int, int]] = []
        self.prompts: list[int] = []
        self.legs: list[object] = []

    @property
    def tokens(self) -> int:
        return sum(tokens for tokens, _ in self.counted)

    def prompt(self, request_id: str, tokens: int, read: int | None = None) -> None:
        del request_id, read
        self.prompts.append(tokens)

    def begins(self, request_id: str, backend: str, at: float) -> None:
        del request_id, at
        self.legs.append(backend)

    def leg(self, request_id: str, leg: LegEnd) -> None:
        del request_id
        self.legs.append(replace(leg, at=0.0))

    def count(self, request_id: str, tokens: int) -> None:
        del request_id
        if self.tokens + tokens > self.room:
            raise BillError("there is no room")
        self.counted.append((tokens, self.connection.sent.count(b".delta\n")))


class Says(PlayedLeg):
    """Answers with these pieces, and then ends, breaks off or does something else."""

    def __init__(
        self, pieces: Sequence[bytes], then: Callable[[Listener], None], kind: str
    ) -> None:
        super().__init__()
        self._pieces, self._then, self._kind = pieces, then, kind
        self.aborted = False

    def answer(self, listener: Listener) -> None:
        asyncio.get_running_loop().call_soon(self._answer, listener)

    def _answer(self, listener: Listener) -> None:
        listener.head(200, {"content-type": self._kind})
        for piece in self._pieces:
            if not self.aborted:
                listener.body(piece)
        if not self.aborted:
            self._then(listener)

    def abort(self) -> None:
        self.aborted = True


def ends(listener: Listener) -> None:
    listener.ended(None)


def breaks_off(listener: Listener) -> None:
    listener.ended(UpstreamError("reset"))


def client_goes(listener: Listener) -> None:
    assert isinstance(listener, Passage)
    listener.gone()


def is_cut(listener: Listener) -> None:
    assert isinstance(listener, Passage)
    listener.cut("shutdown")


def relayed(
    pieces: Sequence[bytes],
    then: Callable[[Listener], None] = ends,
    kind: str = EVENTS,
    room: int = 10**6,
) -> tuple[WrittenBill, Closed, HeardConnection]:
    connection = HeardConnection()
    bill = WrittenBill(connection, room)
    one: Office = replace(office("gpu-a", upstreams=OneLeg(Says(pieces, then, kind))), bill=bill)
    errand = Errand(Head("POST", Route.RESPONSES, {}, "r"), b"{}", "alice", "m", billed=True)

    async def run() -> None:
        async with asyncio.timeout(20.0):
            await Passage(one, errand, Reply(connection, keep_alive=True)).run("k")

    asyncio.run(run())
    return bill, bill.closed["r"], connection


def test_each_token_is_on_the_bill_before_it_is_sent() -> None:
    bill, closed, _ = relayed([CREATED, *deltas(5), completed()])
    assert bill.counted == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (25, 5)]
    assert bill.prompts == [4]
    assert bill.legs == ["gpu-a", LegEnd("gpu-a", 4, 30, "complete", 0.0)]
    assert (closed.end, closed.prompt_tokens, closed.completion_tokens) == (End.COMPLETE, 4, 30)


@pytest.mark.parametrize(
    ("then", "how"),
    [(breaks_off, "broken"), (client_goes, "gone"), (is_cut, "cut"), (ends, "broken")],
)
def test_a_stream_without_its_end_is_partial(then: Callable[[Listener], None], how: str) -> None:
    bill, closed, _ = relayed([CREATED, *deltas(5)], then)
    assert (closed.end, closed.completion_tokens, bill.tokens) == (End.PARTIAL, 5, 5)
    assert bill.legs == ["gpu-a", LegEnd("gpu-a", 0, 5, how, 0.0)]


def fails(listener: Listener) -> None:
    """Something is wrong with ourselves."""
    assert isinstance(listener, Passage)
    assert listener._ended is not None
    listener._ended.set_exception(RuntimeError("a mistake"))


def test_the_bill_is_closed_whatever_goes_wrong() -> None:
    _, closed, connection = relayed([CREATED, *deltas(5)], fails)
    assert (closed.end, closed.completion_tokens) == (End.PARTIAL, 5)
    assert connection.aborted


def test_one_that_gave_nothing_has_failed() -> None:
    _, closed, _ = relayed([CREATED], breaks_off)
    assert (closed.end, closed.completion_tokens) == (End.FAILED, 0)


def test_what_cannot_be_billed_is_not_sent() -> None:
    _, closed, connection = relayed([CREATED, *deltas(5)], room=3)
    assert connection.sent.count(b".delta\n") == 3
    assert connection.aborted
    assert closed.end is End.PARTIAL


def test_a_whole_answer_is_billed_by_its_usage_whatever_was_asked_for() -> None:
    usage = b'"usage": {"prompt_tokens": 7}}'
    bill, closed, _ = relayed([b'{"data": [[0.5]], ', usage], kind=JSON)
    assert bill.prompts == [7]
    assert (closed.end, closed.prompt_tokens) == (End.COMPLETE, 7)


@pytest.mark.parametrize(
    ("pieces", "kind", "commented"),
    [
        pytest.param([], EVENTS, True, id="before the first event"),
        pytest.param([CREATED], EVENTS, True, id="between events"),
        pytest.param([CREATED, CREATED[:9]], EVENTS, False, id="within an event"),
        pytest.param([CREATED[:-1]], EVENTS, False, id="in front of an event's end"),
        pytest.param([b"{"], JSON, False, id="within a whole answer"),
        pytest.param([], JSON, False, id="before a whole answer"),
    ],
)
def test_a_silent_stream_is_commented_between_its_events_alone(
    pieces: list[bytes], kind: str, *, commented: bool
) -> None:
    def silent(listener: Listener) -> None:
        assert isinstance(listener, Passage)
        listener.sweep(listener.began + 16.0)
        listener.sweep(listener.began + 17.0)
        listener.ended(None)

    _, _, connection = relayed(pieces, silent, kind)
    assert connection.sent.count(COMMENT) == int(commented)


class KnownBill(OpenBill):
    """Has every request already."""

    def __init__(self, admission: Admission) -> None:
        super().__init__()
        self.admission = admission

    async def admit(self, opened: Opened) -> Admission:
        del opened
        return self.admission


@pytest.mark.parametrize(
    ("admission", "said", "comes_again"),
    [
        (Admission.BUSY, b"is being answered", True),
        (Admission.AGAIN, b"was answered before", False),
    ],
)
def test_who_asks_twice_is_told_whether_to_ask_again(
    admission: Admission, said: bytes, *, comes_again: bool
) -> None:
    one, connection = office("gpu-a"), HeardConnection()
    one.bill = KnownBill(admission)
    head = Head("POST", Route.EMBEDDINGS, {}, "req-1")
    errand = Errand(head=head, body=b"{}", caller="alice", model="m", billed=True)
    asyncio.run(Passage(one, errand, Reply(connection, keep_alive=True)).run("req-1"))
    assert connection.sent.startswith(b"HTTP/1.1 409 ")
    assert said in connection.sent
    assert (b"\r\nretry-after: 1\r\n" in connection.sent) == comes_again
