"""Killed at any moment, an answer goes on from any event that a client may have got last."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gateway.ask import Never, Route, ask
from gateway.bill import Opened
from gateway.carried import restored, snapshot
from gateway.cut import Learned
from gateway.ledger.entries import BLOCK, found
from gateway.ledger.journal import Journal, Slot
from gateway.outlet import behind
from gateway.snapshot import NotAPlaceError, Snapshot
from gateway.stream import State, Stream
from tests.gateway.client import Client
from tests.gateway.fakes import ShortWay
from tests.gateway.model import Server, chunked, unchunked
from tests.gateway.test_going_on import TEXTS, request, server

OPENED = Opened("r", "alice", "r", "m", Route.CHAT, 0.0)
FOREVER = {"max_tokens": 200}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    journal = Journal(tmp_path_factory.mktemp("journal"))
    yield journal
    journal.remove()


class Life:
    """An answer, given out and written down as a gateway does it, until it is killed."""

    def __init__(self, journal: Journal, stream: Stream, *, again: int | None = None) -> None:
        self.stream = stream
        self.slot: Slot = journal.open(OPENED, journal.run())
        self.sent = b""
        self._journal = journal
        stream.line = self.slot.one
        if again is not None:
            journal.again(self.slot, again)
            self._keep()

    def read(self, data: bytes) -> None:
        stream = self.stream
        if (chunk := ShortWay().takes(stream, chunked(data))) is not None:
            self.sent += unchunked(chunk)
            return
        step = stream.feed(data)
        if step.details:
            self._journal.details(self.slot, step.details)
        if step.marks or step.ids:
            self._journal.add(self.slot, step.ids, behind(step.marks, len(stream.delivered)))
        if stream.is_news():
            self._keep()
        self.sent += step.out

    def _keep(self) -> None:
        self._journal.snapshot(self.slot, json.dumps(snapshot(self.stream)).encode())

    def killed(self) -> tuple[Snapshot, int] | None:
        """What the next gateway finds, and how many tokens are on the bill."""
        blocks = [bytes(one.view[at : at + BLOCK]) for one, at in self.slot.blocks]
        run = found(blocks, self.slot.serial)
        assert run is not None
        assert run.completion_tokens == max(0, self.slot.tokens)
        return (json.loads(run.left), run.completion_tokens) if run.left else None


def begun(route: Route, **more: object) -> Stream:
    body = request(route, **(FOREVER | more))
    return Stream(ask(route, body, forbid_resume=False), "r", 1, Learned(fingerprint=b""))


def leg(stream: Stream, one: Server, route: Route) -> list[bytes]:
    body = stream.later()
    assert not isinstance(body, Never), body
    stream.begin()
    return one.events(route, body)


def state(stream: Stream) -> State:
    """Asked by a function, since a type checker takes an attribute to stay as it was."""
    return stream.state


def to_the_end(stream: Stream, one: Server, route: Route) -> bytes:
    if state(stream) is not State.INTERRUPTED:
        return stream.ended().out
    out = b"".join(stream.feed(event).out for event in leg(stream, one, route))
    assert state(stream) is State.COMPLETE
    return out


def first(sent: bytes, events: int) -> bytes:
    """The first events of what was sent."""
    return b"".join(event + b"\n\n" for event in sent.split(b"\n\n")[:events])


def whole(one: Server, route: Route, **more: object) -> Client:
    return Client().read(to_the_end_of_first(begun(route, **more), one, route))


def to_the_end_of_first(stream: Stream, one: Server, route: Route) -> bytes:
    return b"".join(stream.feed(event).out for event in leg(stream, one, route))


def check_from(snapshot: Snapshot, at: int, sent: bytes, one: Server, want: Client) -> None:
    route = Route(snapshot["route"])
    stream = restored(json.loads(json.dumps(snapshot)), at)
    client = Client().read(first(sent, at))
    client.read(to_the_end(stream, one, route))
    assert client.text == want.text
    assert client.numbers == list(range(1, len(client.numbers) + 1))
    assert (client.done, client.roles, len(client.who)) == (1, want.roles, 1)
    assert client.finish_reasons == want.finish_reasons
    assert client.stop_reasons == want.stop_reasons
    assert client.usages == want.usages


@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize("route", [Route.CHAT, Route.COMPLETIONS])
@pytest.mark.parametrize("text", list(TEXTS))
def test_it_goes_on_from_every_event_wherever_it_was_killed(
    journal: Journal, text: str, route: Route, usage: bool
) -> None:
    one = server(TEXTS[text].encode()[:21])
    more = {"stream_options": {"include_usage": usage}}
    want = whole(one, route, **more)
    life = Life(journal, begun(route, **more))
    for event in leg(life.stream, one, route):
        life.read(event)
        if not life.stream.seq:
            continue  # nothing was sent yet
        left = life.killed()
        assert left is not None
        snapshot, billed = left
        assert billed == len(life.stream.delivered)
        assert len(snapshot["marks"]) == life.sent.count(b"\n\n")
        last = len(snapshot["marks"])
        for at in {0, last // 2, last - 1, last}:
            check_from(snapshot, at, life.sent, one, want)
        with pytest.raises(NotAPlaceError, match="there was no event"):
            restored(snapshot, last + 1)
    for at in range(last):
        check_from(snapshot, at, life.sent, one, want)


@dataclass(frozen=True)
class Story:
    """What is answered, and in which pieces it is read."""

    text: str
    route: Route
    per_frame: tuple[int, ...]
    stop: tuple[str, ...]
    pieces: tuple[int, ...]
    reads: int

    @property
    def server(self) -> Server:
        return server(TEXTS[self.text].encode(), per_frame=self.per_frame)

    @property
    def more(self) -> dict[str, object]:
        return {"stop": list(self.stop)} if self.stop else {}


stories = some.builds(
    Story,
    text=some.sampled_from(list(TEXTS)),
    route=some.sampled_from([Route.CHAT, Route.COMPLETIONS]),
    per_frame=some.lists(some.integers(1, 3), min_size=1, max_size=4).map(tuple),
    stop=some.sampled_from([(), ("水", "ok"), ("溺れ",)]),
    pieces=some.lists(some.integers(1, 900), min_size=1, max_size=5).map(tuple),
    reads=some.integers(0, 60),
)


def at_a_place(snapshot: Snapshot, at: int, story: Story) -> Stream | None:
    """The stream after an event; None after one that is known to be no place to go on from."""
    try:
        return restored(snapshot, at)
    except NotAPlaceError as error:
        if not error.known or max(story.per_frame) == 1:
            raise
        return None


@settings(max_examples=150, deadline=None)
@given(stories, some.data())
def test_so_it_does_with_frames_of_several_tokens_stop_strings_and_odd_pieces(
    journal: Journal, story: Story, data: some.DataObject
) -> None:
    one, route = story.server, story.route
    want = whole(one, route, **story.more)
    life = Life(journal, begun(route, **story.more))
    wire = b"".join(leg(life.stream, one, route))
    for size in islice(cycle(story.pieces), story.reads):
        life.read(wire[:size])
        wire = wire[size:]
    left = life.killed()
    if left is None:  # nothing was sent yet
        assert life.stream.seq == 0
        return
    snapshot, _ = left
    at = data.draw(some.integers(0, len(snapshot["marks"])))
    stream = at_a_place(snapshot, at, story)
    if stream is None:
        return
    sent = first(life.sent, at)
    if stream.state is State.INTERRUPTED:  # it goes on, and is killed once more
        before = len(stream.delivered)
        again = len(snapshot["delivered"]) - before
        life = Life(journal, stream, again=again)
        events = leg(stream, one, route)
        for event in events[: data.draw(some.integers(0, len(events)))]:
            life.read(event)
        left = life.killed()
        assert left is not None
        snapshot, billed = left
        assert billed == max(0, len(stream.delivered) - before - again)
        sent += life.sent
        at = data.draw(some.integers(0, len(snapshot["marks"])))
    else:
        sent = life.sent
    if at_a_place(snapshot, at, story) is not None:
        check_from(snapshot, at, sent, one, want)


@pytest.mark.parametrize(("letters", "times"), [(20, 1000 // 18), (600, 4 * 599 // 598)])
def test_who_has_lost_everything_again_and_again_is_refused_in_the_end(
    letters: int, times: int
) -> None:
    body = {"model": "m", "prompt": "?", "stream": True, "max_tokens": letters}
    asked = ask(Route.COMPLETIONS, json.dumps(body).encode(), forbid_resume=False)
    one, lost = server(b"w" * letters), letters - 2
    stream = Stream(asked, "r", 1, Learned(fingerprint=b""))
    for _ in range(times + 1):
        later = stream.later()
        assert isinstance(later, bytes)
        stream.begin()
        for event in one.events(Route.COMPLETIONS, later)[: letters - 1 - len(stream.delivered)]:
            stream.feed(event)
        stream.ended()
        kept: Snapshot = json.loads(json.dumps(snapshot(stream)))
        assert kept["again"] <= times * lost
        if kept["again"] < times * lost:
            stream = restored(kept, 1)
    assert len(restored(kept).delivered) == letters - 1
    why = f"{times * lost} tokens of it were generated again already"
    with pytest.raises(NotAPlaceError, match=why) as caught:
        restored(kept, 1)
    assert caught.value.known
    del kept["again"]  # as a gateway of before kept it
    assert len(restored(kept, 1).delivered) == 1
