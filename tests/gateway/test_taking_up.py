"""What is taken up and cannot be gone on with is given back: its token is not spent."""

import asyncio
import json
from collections.abc import Callable

import pytest

from gateway.ask import Route, ask
from gateway.bill import Admission, End, Opened
from gateway.carried import snapshot
from gateway.kept import Left, Taken
from gateway.office import Office
from gateway.outlet import UNSURE
from gateway.reply import Reply, Request
from gateway.standing import Standing
from gateway.stream import Stream
from gateway.taking_up import TakingUp
from gateway.wish import Last, Wish
from tests.gateway.databases import TestedDatabase
from tests.gateway.fakes import SEAL, HeardConnection, OpenBill, office
from tests.gateway.model import Server, Vocabulary

AGAIN = Request("POST", Route.COMPLETIONS, "", {}, b"")


class BusyBill(OpenBill):
    """Somebody else has every request in hand."""

    async def reopen(self, opened: Opened) -> Admission:
        del opened
        return Admission.BUSY


class EndedBill(OpenBill):
    """Every request has come to its end."""

    async def stage(self, caller: str, request_id: str) -> End | Admission:
        del caller, request_id
        return End.COMPLETE


def interrupted() -> Stream:
    """A stream of which three letters were sent."""
    body = {"model": "m", "prompt": "?", "stream": True, "max_tokens": 20}
    asked = ask(Route.COMPLETIONS, json.dumps(body).encode(), forbid_resume=False)
    stream, first = Stream(asked, "req-1", 1), Server(Vocabulary(), tuple(b"water"))
    later = stream.later()
    assert isinstance(later, bytes)
    stream.begin()
    stream.feed(b"".join(first.events(Route.COMPLETIONS, later)[:3]))
    stream.ended()
    return stream


def down(standing: Standing) -> None:
    standing.reachable = False


def without_the_model(standing: Standing) -> None:
    standing.models = frozenset({"another"})


def refuses_connections(standing: Standing) -> None:
    standing.forgive()


def answered(one: Office, wanted: Wish, *, hurry: bool = False) -> tuple[HeardConnection, object]:
    """What a client hears that asks to go on, and what is kept for it after that."""

    async def run() -> tuple[HeardConnection, object]:
        connection = HeardConnection()
        answering = TakingUp(one).run(wanted, AGAIN, "alice", Reply(connection, keep_alive=True))
        task = asyncio.create_task(answering)
        if hurry:
            _cut_first(one)
        await asyncio.wait_for(task, 20.0)
        return connection, await one.shelf.take(wanted.token or "", "alice")

    return asyncio.run(run())


def _cut_first(one: Office) -> None:
    """End what is in flight as soon as something is."""
    for request in list(one.in_flight.values()):
        request.cut("shutdown")
    if not one.in_flight:
        asyncio.get_running_loop().call_later(0.01, _cut_first, one)


def kept(one: Office, stream: Stream) -> Wish:
    """Keep a stream; what its client goes on by."""
    token = SEAL.token("alice", one.wall())
    kept = json.dumps(snapshot(stream)).encode()
    asyncio.run(one.shelf.keep(Left(token, "alice", stream.request_id, kept)))
    return Wish(token.text, Last(stream.request_id, stream.seq))


@pytest.mark.parametrize("trouble", [down, without_the_model, refuses_connections])
def test_where_nobody_can_go_on_it_is_said_and_the_token_is_not_spent(
    shared: TestedDatabase, trouble: Callable[[Standing], None]
) -> None:
    one = office("gpu-a", database=shared, gateway="stall_after: 300ms, keep_alive: 200ms")
    wanted = kept(one, interrupted())
    for standing in one.standings:
        trouble(standing)
    for _ in range(2):
        connection, taken = answered(one, wanted)
        assert connection.sent.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: " in connection.sent
        assert isinstance(taken, Taken)
        assert json.loads(taken.snapshot) == json.loads(json.dumps(snapshot(interrupted())))
        asyncio.run(one.shelf.give_back(taken, "alice"))


def test_a_gateway_that_ends_before_it_has_gone_on_spends_nothing(shared: TestedDatabase) -> None:
    one = office("gpu-a", database=shared)
    wanted = kept(one, interrupted())
    down(one.standings[0])
    connection, taken = answered(one, wanted, hurry=True)
    assert connection.sent.startswith(b"HTTP/1.1 503 ")
    assert isinstance(taken, Taken)


def test_what_somebody_has_in_hand_is_not_spent(shared: TestedDatabase) -> None:
    one = office("gpu-a", database=shared)
    one.bill = BusyBill()
    connection, taken = answered(one, kept(one, interrupted()))
    assert connection.sent.startswith(b"HTTP/1.1 409 ")
    assert isinstance(taken, Taken)


def test_what_was_taken_up_and_came_to_its_end_is_not_there_any_more(
    shared: TestedDatabase,
) -> None:
    one = office("gpu-a", database=shared)
    token = kept(one, interrupted()).token
    asyncio.run(one.shelf.take(token or "", "alice"))
    by_id = Wish(None, Last("req-1", 3))
    for bill, status, code in ((OpenBill(), b"410", b"spent"), (EndedBill(), b"404", b"not_kept")):
        one.bill = bill
        connection, _ = answered(one, by_id)
        assert connection.sent.startswith(b"HTTP/1.1 %b " % status)
        assert b'"code": "%b"' % code in connection.sent


def test_what_cannot_go_on_from_there_is_not_spent(shared: TestedDatabase) -> None:
    one, stream = office("gpu-a", database=shared), interrupted()
    stream.outlet.marks[0] = UNSURE
    wanted = kept(one, stream)
    for number, status in ((1, b"410"), (100, b"400")):
        connection, taken = answered(one, Wish(wanted.token, Last("req-1", number)))
        assert connection.sent.startswith(b"HTTP/1.1 %b " % status)
        assert isinstance(taken, Taken)
        asyncio.run(one.shelf.give_back(taken, "alice"))
