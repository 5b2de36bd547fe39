"""Answers as they go out, to everybody and to an EventSource."""

from dataclasses import dataclass, field

import pytest

from gateway.errors import Refusal
from gateway.event_source import EventSourceReply
from gateway.reply import Answering, Reply


@dataclass
class FakeWire:
    """Keeps what is sent."""

    is_open: bool = True
    sent: bytes = b""
    answering: Answering | None = None
    kept_alive: list[bool] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.sent += data

    def answered(self, *, keep_alive: bool) -> None:
        self.kept_alive.append(keep_alive)

    def abort(self) -> None:
        self.is_open = False


@dataclass
class FakeAnswering:
    """Counts how often it is told that the client is gone."""

    times_gone: int = 0

    def gone(self) -> None:
        self.times_gone += 1

    def pause(self) -> None: ...

    def resume(self) -> None: ...


@pytest.mark.parametrize(("is_open", "times"), [(True, 0), (False, 1)])
def test_who_answers_a_client_that_is_gone_is_told_at_once(is_open: bool, times: int) -> None:
    answering = FakeAnswering()
    Reply(FakeWire(is_open), keep_alive=True).follow(answering)
    assert answering.times_gone == times


def for_event_source(wire: FakeWire) -> EventSourceReply:
    reply = Reply(wire, keep_alive=True)
    reply.extra = (("x-extra", "1"),)
    return reply.like(EventSourceReply)


@pytest.mark.parametrize(
    ("status", "retry_after", "again"),
    [
        (409, 1, True),
        (429, 2, True),
        (503, 5, True),
        (409, None, False),
        (503, None, False),
        (404, None, False),
        (410, None, False),
    ],
)
def test_an_event_source_comes_again_where_others_are_told_when(
    status: int, retry_after: int | None, again: bool
) -> None:
    wire = FakeWire()
    refusal = Refusal(status, "why", retry_after=retry_after)
    for_event_source(wire).send(refusal.status, refusal.headers, refusal.body)
    head, _, body = wire.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % (200 if again else status))
    assert b"x-extra: 1" in head
    assert (b"content-type: text/event-stream" in head) is again
    assert body == (b"d\r\nretry: 1000\n\n\r\n0\r\n\r\n" if again else refusal.body)
    assert wire.kept_alive == [True]


def test_a_stream_for_an_event_source_says_first_when_to_come_again() -> None:
    wire = FakeWire()
    reply = for_event_source(wire)
    reply.begin(200, ())
    reply.write(b"data: x\n\n")
    reply.end()
    body = wire.sent.partition(b"\r\n\r\n")[2]
    assert body == b"d\r\nretry: 1000\n\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n"


def test_there_is_nothing_to_say_where_there_is_no_body() -> None:
    wire = FakeWire()
    for_event_source(wire).send(204, (), b"")
    assert wire.sent == b"HTTP/1.1 204 No Content\r\nx-extra: 1\r\n\r\n"
