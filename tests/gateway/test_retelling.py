"""The end of a complete answer is given again: at a client's pace, to one at a time, or not."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from gateway.ask import Route, ask
from gateway.bill import Admission, End
from gateway.carried import snapshot
from gateway.event_source import EventSourceReply
from gateway.finished import GOOD_FOR_SECONDS
from gateway.following import Follower, Following
from gateway.heads import Head
from gateway.kept import Left
from gateway.keys import Keys
from gateway.office import Office
from gateway.relay import Generation, Wanted
from gateway.reply import Reply, Request
from gateway.retelling import Retelling
from gateway.serve import sweep
from gateway.step import Step
from gateway.stream import State, Stream
from gateway.taking_up import TakingUp
from gateway.transcript import PACKED_AT, Transcript
from gateway.wish import Last, Wish
from tests.gateway.databases import TestedDatabase
from tests.gateway.fakes import SEAL, HeardConnection, OpenBill, office
from tests.gateway.model import Server, Vocabulary

AGAIN = Request("POST", Route.COMPLETIONS, "", {}, b"")
EVENTS = 30


class CompleteBill(OpenBill):
    """All that anybody asks for was answered before."""

    async def stage(self, caller: str, request_id: str) -> End | Admission:
        del caller, request_id
        return End.COMPLETE


class SlowConnection(HeardConnection):
    """Has had enough after each piece of an answer, until it is told to read."""

    def send(self, data: bytes) -> None:
        super().send(data)
        if self.answering is not None:
            self.answering.pause()

    def read(self) -> None:
        if self.answering is not None:
            self.answering.resume()


def events(first: int = 1) -> list[bytes]:
    numbers = range(first, EVENTS + 1)
    return [f"id: req-1.{number}\ndata: word {number}\n\n".encode() for number in numbers]


def remembering(caller: str = "alice", database: TestedDatabase | None = None) -> Office:
    """An office in which an answer came to its end a moment ago, in pieces of ten events."""
    one = office("gpu-a", database=database)
    one.bill = CompleteBill()
    transcript = Transcript("req-1", 0)
    for number, event in enumerate(events(), 1):
        transcript.add(event, number)
        if number % 10 == 0:
            transcript.pack()
    one.finished.keep(caller, transcript, one.now())
    return one


def taking_up(one: Office, number: int, reply: Reply, token: str | None = None) -> Awaitable[None]:
    return TakingUp(one).run(Wish(token, Last("req-1", number)), AGAIN, "alice", reply)


def following(one: Office, number: int, reply: Reply) -> Awaitable[None]:
    follower = Follower("alice", Last("req-1", number))
    return Following(one, Keys(None), TakingUp(one)).run(follower, reply)


def heard(
    one: Office, asks: Callable[[Office, int, Reply], Awaitable[None]], number: int
) -> tuple[bytes, bytes]:
    """The head and the body that a client hears who has got so many events."""

    async def run() -> HeardConnection:
        connection = HeardConnection()
        kind = EventSourceReply if asks is following else Reply
        await asyncio.wait_for(
            asks(one, number, kind(connection, keep_alive=True, chunks=False)), 20.0
        )
        return connection

    connection = asyncio.run(run())
    assert one.in_flight == {}
    head, _, body = connection.sent.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize("number", range(EVENTS))
def test_whoever_misses_events_gets_those_and_no_others(number: int) -> None:
    head, body = heard(remembering(), taking_up, number)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"text/event-stream" in head
    assert b"x-request-id: req-1" in head
    assert body == b"".join(events(number + 1))
    head, body = heard(remembering(), following, number)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b"retry: 1000\n\n" + b"".join(events(number + 1))


def test_it_is_given_as_often_as_it_takes() -> None:
    one = remembering()
    for number in (20, 10, 29):
        assert heard(one, taking_up, number)[1] == b"".join(events(number + 1))


def test_whoever_has_all_of_it_is_told_that_it_is_over(shared: TestedDatabase) -> None:
    head, body = heard(remembering(), following, EVENTS)
    assert head.startswith(b"HTTP/1.1 204 ")
    assert body == b""
    head, body = heard(remembering(database=shared), taking_up, EVENTS)
    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["error"]["code"] == "not_kept"


def test_an_event_that_never_was_is_no_place() -> None:
    head, body = heard(remembering(), taking_up, EVENTS + 1)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "malformed"


def test_what_is_no_longer_there_is_too_far_back() -> None:
    one = remembering()
    transcript = Transcript("req-1", 10)
    transcript.add(b"".join(events(11)), EVENTS)
    transcript.pack()
    one.finished.keep("alice", transcript, one.now())
    assert heard(one, taking_up, 10)[1] == b"".join(events(11))
    for asks in (taking_up, following):
        head, body = heard(one, asks, 9)
        assert head.startswith(b"HTTP/1.1 410 ")
        assert json.loads(body)["error"]["code"] == "too_far_back"


def test_it_is_given_to_nobody_else(shared: TestedDatabase) -> None:
    one = remembering("bob", shared)
    assert heard(one, taking_up, 5)[0].startswith(b"HTTP/1.1 404 ")
    assert heard(one, following, 5)[0].startswith(b"HTTP/1.1 204 ")


def test_it_is_given_to_one_at_a_time_and_as_fast_as_that_one_reads() -> None:
    one = remembering()

    async def run() -> None:
        slow, other = SlowConnection(), HeardConnection()
        first = asyncio.ensure_future(taking_up(one, 0, Reply(slow, keep_alive=True)))
        read = 0
        while not first.done():
            for _ in range(5):
                await asyncio.sleep(0)
            assert slow.sent.count(b"id: req-1.") - read <= 10  # never more than a piece
            read = slow.sent.count(b"id: req-1.")
            if not first.done():
                assert [request.id for request in one.in_flight.values()] == ["req-1"]
                busy = HeardConnection()
                await taking_up(one, 0, Reply(busy, keep_alive=True))
                assert busy.sent.startswith(b"HTTP/1.1 409 ")
                assert b"retry-after: 1" in busy.sent
            slow.read()
        assert read == EVENTS
        await taking_up(one, 25, Reply(other, keep_alive=True))
        assert other.sent.count(b"id: req-1.") == 5

    asyncio.run(run())
    assert one.in_flight == {}


async def stopped_by(one: Office, stop: Callable[[Retelling], None]) -> SlowConnection:
    slow = SlowConnection()
    task = asyncio.ensure_future(taking_up(one, 0, Reply(slow, keep_alive=True)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    [request] = one.in_flight.values()
    assert isinstance(request, Retelling)
    assert not request.hand_over("a drain")
    request.sweep(one.now() + 299.0)
    assert not slow.aborted
    stop(request)
    await asyncio.wait_for(task, 20.0)
    return slow


@pytest.mark.parametrize(
    ("stop", "breaks"),
    [
        (lambda request: request.cut("shutdown"), True),
        (lambda request: request.sweep(request.began + 1000.0), True),
        (lambda request: request.gone(), False),
    ],
    ids=["the gateway ends", "the client takes nothing", "the client hangs up"],
)
def test_what_breaks_off_is_no_whole_answer_and_may_be_asked_for_again(
    stop: Callable[[Retelling], None], breaks: bool
) -> None:
    one = remembering()
    slow = asyncio.run(stopped_by(one, stop))
    assert slow.aborted == breaks
    assert not slow.sent.endswith(b"0\r\n\r\n")
    assert slow.sent.count(b"id: req-1.") < EVENTS
    assert one.in_flight == {}
    assert heard(one, taking_up, 0)[1] == b"".join(events())


@pytest.mark.parametrize(("asks", "status"), [(taking_up, 404), (following, 204)])
def test_a_killed_gateways_client_that_has_all_of_it_is_told_so(
    shared: TestedDatabase, asks: Callable[[Office, int, Reply], Awaitable[None]], status: int
) -> None:
    body = {"model": "m", "prompt": "?", "stream": True, "max_tokens": 20}
    asked = ask(Route.COMPLETIONS, json.dumps(body).encode(), forbid_resume=False)
    stream = Stream(asked, "req-1", 1)
    later = stream.later()
    assert isinstance(later, bytes)
    stream.begin()
    stream.feed(b"".join(Server(Vocabulary(), tuple(b"water")).events(Route.COMPLETIONS, later)))
    assert stream.state is State.COMPLETE
    one = office("gpu-a", database=shared)
    kept = json.dumps(snapshot(stream)).encode()
    asyncio.run(one.shelf.keep(Left(SEAL.token("alice", one.wall()), "alice", "req-1", kept)))
    head, _ = heard(one, asks, stream.seq)
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert isinstance(one.bill, OpenBill)
    assert one.bill.closed["req-1"].end is End.COMPLETE


def test_what_nobody_asks_for_any_more_takes_no_memory() -> None:
    one = office("gpu-a")
    then = one.now() - GOOD_FOR_SECONDS
    for name, at in (("req-1", then), ("req-2", one.now())):
        one.finished.keep("alice", Transcript(name, 0), at)
    sweep(one, ())
    assert one.finished.find("alice", "req-1", then) is None
    assert one.finished.find("alice", "req-2", then) is not None


def test_what_was_given_takes_little_memory_while_more_comes() -> None:
    body = {"model": "m", "prompt": "?", "stream": True}
    asked = ask(Route.COMPLETIONS, json.dumps(body).encode(), forbid_resume=False)
    one, stream = office("gpu-a"), Stream(asked, "req-1", 1)
    head = Head("POST", Route.COMPLETIONS, {}, "req-1")
    generation = Generation(
        one, Wanted(stream, head, "alice", "k"), Reply(HeardConnection(), keep_alive=True)
    )
    transcript = generation._parting._transcript
    assert transcript is not None
    for _ in range(PACKED_AT):
        assert transcript.last == 0
        stream.outlet.event(b"data: x")
        generation._parting.gave(Step(stream.outlet.take().out, [], State.RUNNING))
    assert transcript.last == PACKED_AT
    assert transcript.size < 1000
