"""The short way gives what the long one gives, or takes nothing."""

import json

import pytest

from gateway.ask import Route, ask
from gateway.bill import BillError
from gateway.cut import Learned
from gateway.step import Step
from gateway.stream import Stream
from gateway.transcript import Transcript
from tests.gateway.fakes import ShortWay
from tests.gateway.model import Server, chunked, unchunked
from tests.gateway.test_going_on import TEXTS, VOCABULARY, request, server


def streams(route: Route, **more: object) -> tuple[Stream, Stream]:
    body = request(route, max_tokens=300, **more)
    one, two = (
        Stream(ask(route, body, forbid_resume=False), "100%d", 1, Learned(fingerprint=b""))
        for _ in range(2)
    )
    return one, two


def wire(stream: Stream, one: Server, route: Route) -> list[bytes]:
    body = stream.later()
    assert isinstance(body, bytes)
    return one.events(route, body)


def keep(transcript: Transcript, step: Step, stream: Stream) -> bytes:
    """What a step gives, which is in the transcript then."""
    for run in step.runs:
        transcript.add_run(run)
    if step.out:
        transcript.add(step.out, stream.seq)
    return step.out


def first_left_out(given: bytes, events: int) -> bytes:
    return b"".join(event + b"\n\n" for event in given.split(b"\n\n")[events:-1])


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("route", [Route.CHAT, Route.COMPLETIONS])
@pytest.mark.parametrize("text", [*TEXTS, "percent"])
def test_both_ways_give_the_same(text: str, route: Route, ids: bool) -> None:
    one = server(TEXTS.get(text, "100%d %% %s").encode())
    short, long = streams(route, return_token_ids=ids)
    taken = 0
    told: list[int] = []
    given: list[bytes] = []
    way = ShortWay()
    transcript = Transcript(short.request_id, 0)
    short.line = told.append
    for event in wire(short, one, route):
        want = long.feed(event)
        chunk = way.takes(short, chunked(event))
        if chunk is not None:
            taken += 1
            out = unchunked(chunk)
            assert told[-1] == short.delivered[-1]
            assert (short.quick_at, want.state) == (way.turn.now, short.state)
        else:
            out = keep(transcript, short.feed(event), short)
        given.append(out)
        assert out == want.out
        assert short.delivered == long.delivered
        assert short.outlet.marks == long.outlet.marks
    keep(transcript, short.ended(), short)
    transcript.pack()
    for last in range(short.seq):
        assert b"".join(transcript.after(last)) == first_left_out(b"".join(given), last)
    assert len(told) == taken
    assert taken > 3 or text not in ("mixed", "percent")
    assert short.completion_tokens == long.completion_tokens


def odd(event: bytes) -> list[bytes]:
    """What looks like a chunk of one event of one token and is another, or not all, or more."""
    whole = chunked(event)
    return [
        b"",
        whole[:-1],
        whole + b"\n",
        whole + whole,
        event,
        b"none\r\n" + whole,
        whole.replace(b"\r\n", b";a=b\r\n", 1),
        b"0" + whole,
        b"%x\r\n%b\r\n" % (len(event) + 1, event),
        b"%x\r\n%b\r\n" % (len(event) - 1, event),
        chunked(event.replace(b'"content":"', b'"content":"' + b"a" * 5000)),
        *map(chunked, odd_events(event)),
    ]


def odd_events(event: bytes) -> list[bytes]:
    frame = json.loads(event.removeprefix(b"data: "))
    [choice] = frame["choices"]
    [token] = choice["token_ids"]
    ids = b'"token_ids":[%d]' % token
    total, count = frame["usage"]["total_tokens"], frame["usage"]["completion_tokens"]
    text = choice["delta"]["content"].encode()
    return [
        event[:-1],
        event + b"\n",
        event + event,
        event.replace(b'"id":"one"', b'"id":"two"'),
        event.replace(ids, b'"token_ids":[%d,7]' % token),
        event.replace(ids, b'"token_ids":[]'),
        event.replace(ids, b'"token_ids":[-7]'),
        event.replace(b'"total_tokens":%d' % total, b'"total_tokens":%d' % (total + 1)),
        event.replace(b'"completion_tokens":%d' % count, b'"completion_tokens":%d' % (count + 1)),
        event.replace(b'"content":"%b"' % text, b'"content":""'),
        event.replace(b'"content":"%b"' % text, b'"content":"\\""'),
        event.replace(b'"content":"%b"' % text, b'"content":"a","role":"b"'),
        event.replace(b'"finish_reason":null', b'"finish_reason":"stop"'),
    ]


def test_what_is_not_one_event_of_one_token_is_left_to_the_long_way() -> None:
    stream, _ = streams(Route.CHAT)
    events = wire(stream, server(b"abcdef"), Route.CHAT)
    for event in events[:4]:
        stream.feed(event)
    quick, following = stream.quick, events[4]
    way = ShortWay()
    assert quick is not None
    before = quick.tokens, list(stream.delivered), list(stream.outlet.marks)
    for one in odd(following):
        assert one != chunked(following)
        assert way.takes(stream, one) is None, one
    assert (quick.tokens, stream.delivered, stream.outlet.marks) == before
    assert stream.quick_at == 0.0
    assert way.takes(stream, chunked(following)) is not None
    stream.begin()
    assert stream.quick_at == way.turn.now


def test_what_cannot_be_written_down_is_not_given() -> None:
    def refuse(_: int) -> None:
        raise BillError("no room")

    stream, _ = streams(Route.CHAT)
    stream.line = refuse
    events = wire(stream, server(b"abcdef"), Route.CHAT)
    for event in events[:4]:
        stream.feed(event)
    quick = stream.quick
    assert quick is not None
    before = quick.tokens, list(stream.delivered), list(stream.outlet.marks)
    way = ShortWay()
    assert way.takes(stream, chunked(events[4])) == b""
    assert [str(error) for error in way.failures] == ["no room"]
    assert (quick.tokens, stream.delivered, stream.outlet.marks) == before


@pytest.mark.parametrize("size", [1, 15, 16, 255, 256, 4000, 4095, 4096, 70_000])
def test_a_chunk_of_any_size_is_one_for_the_client(size: int) -> None:
    stream, _ = streams(Route.CHAT, return_token_ids=True)
    events = wire(stream, server(b"abcdef"), Route.CHAT)
    for event in events[:4]:
        stream.feed(event)
    text = b"a" * size
    frame = json.loads(events[4].removeprefix(b"data: "))
    old = frame["choices"][0]["delta"]["content"].encode()
    event = events[4].replace(b'"content":"%b"' % old, b'"content":"%b"' % text)
    chunk = ShortWay().takes(stream, chunked(event))
    assert chunk is None or text in unchunked(chunk)
    assert (chunk is None) == (size > 3500)


def test_there_is_no_short_way_while_something_is_held_back_or_in_pieces() -> None:
    one = Server(VOCABULARY, tuple(VOCABULARY.encode("ab水c".encode()[:-1] + b"cd")))
    stream, _ = streams(Route.CHAT)
    for event in wire(stream, one, Route.CHAT):
        stream.feed(event[:20])
        assert stream.quick is None
        stream.feed(event[20:])
        is_clean = stream.answer.cut is not None and stream.answer.is_plain
        assert (stream.quick is not None) <= is_clean
    searching, _ = streams(Route.CHAT, stop=["never said"])
    for event in wire(searching, one, Route.CHAT):
        searching.feed(event)
        assert searching.quick is None
