"""Events are the same however the stream was cut into pieces."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.frames import Event, Events, EventTooLongError


def by_the_standard(stream: bytes) -> list[bytes]:
    """The events of a whole stream, told line by line."""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    events: list[bytes] = []
    event: list[bytes] = []
    for line in lines[:-1]:
        if line:
            event.append(line)
        elif event:
            events.append(b"\n".join(event))
            event = []
    return events


@given(
    some.lists(
        some.sampled_from(
            [b"data: a", b":", b"x", b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\xe6"]
        ),
        max_size=30,
    ),
    some.lists(some.integers(1, 5), min_size=1),
)
def test_any_pieces_give_the_events_of_the_standard(parts: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(parts)
    events = Events()
    found: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += events.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert [re.sub(rb"\r\n|\r", b"\n", event) for event in found] == by_the_standard(stream)


def test_an_event_that_never_ends_is_given_up() -> None:
    events = Events(longest=100)
    events.feed(b"data: 1\n\ndata: " + b"x" * 90)
    with pytest.raises(EventTooLongError, match="longer than 100 bytes"):
        events.feed(b"x" * 10)


def test_each_byte_is_looked_at_once() -> None:
    class Counted(Events):
        looked = 0

        def _feed_slowly(self, data: bytes) -> list[bytes]:
            before = self._looked
            found = super()._feed_slowly(data)
            Counted.looked += len(self._rest) - before
            return found

    events = Counted()
    for _ in range(20_000):
        events.feed(b"x")
    assert Counted.looked < 20_000 * 8


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (b"data: a", Event(b"a")),
        (b"data:a\ndata:  b\ndata", Event(b"a\n b\n")),
        (b"event: e\nid: 1\nretry: 2\ndata: a", Event(b"a", b"e")),
        (b": hello", Event(None, comments=True)),
        (b":\r\ndata: a\rother: b", Event(b"a", comments=True)),
        (b"event: e", Event(None, b"e")),
    ],
)
def test_the_lines_of_an_event(raw: bytes, event: Event) -> None:
    assert Event.from_bytes(raw) == event


def test_an_event_on_one_line() -> None:
    assert Event(b'{"a":\n1}', b"e").line() == b'event: e\ndata: {"a": 1}'
