"""Cut anywhere, an answer that goes on elsewhere is the answer that was never cut."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gateway.ask import Never, Route, ask
from gateway.carried import restored, snapshot
from gateway.cut import Learned
from gateway.resumable import Resume
from gateway.stream import State, Stream
from tests.gateway.client import Client
from tests.gateway.model import LETTERS, SECRET, Server, Vocabulary

TEXTS = {
    "chinese": "水面の下で誰かが溺れている。救命员看着水。",
    "emoji": "🏊‍♀️👩‍👩‍👧‍👦🇹🇭🏴‍☠️ok👍🏽",
    "thai": "ผู้ดูแลเฝ้าดูน้ำ",
    "mixed": 'a\\"b"\n\té\x00\x1f</s>水🏊',
}
# Tokens that begin or end within characters, or hold several, or all of it.
LONGER = (
    "水面".encode()[:4],
    "面".encode()[1:],
    "🏊‍♀️".encode()[2:7],
    b"ok",
    "ดูแล".encode(),
    b"\x80a",
)
VOCABULARY = Vocabulary(LONGER)


def request(route: Route, **more: object) -> bytes:
    said = (
        {"messages": [{"role": "user", "content": "?"}]} if route is Route.CHAT else {"prompt": "?"}
    )
    return json.dumps({"model": "m", "stream": True, "temperature": 0, **said, **more}).encode()


def server(text: bytes, **more: object) -> Server:
    return Server(VOCABULARY, tuple(VOCABULARY.encode(text)), **more)  # type: ignore[arg-type]


class Run:
    """One client's request; each leg is one more backend, and ends where it is told to."""

    def __init__(
        self, server: Server, route: Route, *, stop: Sequence[str] = (), **more: object
    ) -> None:
        self.server = server
        self.route = route
        body = request(route, **({"stop": list(stop)} if stop else {}), **more)
        self.stream = Stream(
            ask(route, body, forbid_resume=False), "r", 1, Learned(fingerprint=b"")
        )
        self.client = Client()
        self.billed: list[int] = []
        self.legs = 0
        self.never: Never | None = None

    def wire(self) -> bytes:
        body = self.stream.later()
        if isinstance(body, Never):
            self.never = body
            return b""
        self.stream.begin()
        self.legs += 1
        return _wire(self.server, "x" * self.legs, self.route, body)

    def take(self, pieces: Sequence[bytes], *, ends: bool = True) -> None:
        for piece in pieces:
            step = self.stream.feed(piece)
            self.billed += step.ids
            self.client.read(step.out)
        if ends:
            step = self.stream.ended()
            self.billed += step.ids
            self.client.read(step.out)

    def whole(self) -> "Run":
        """Run without a cut, or on to the end."""
        self.take([self.wire()])
        return self

    def check(self) -> None:
        """What holds at every moment."""
        client, stream = self.client, self.stream
        assert client.numbers == list(range(1, len(client.numbers) + 1))
        assert len(client.who) <= 1
        assert client.roles <= 1
        assert self.billed == stream.delivered
        if stream.resume[0] is not Resume.NEVER and stream.state is not State.COMPLETE:
            details = snapshot(stream)["details"]
            shown = self.client.text + (details[-1][2] if details else "")
            assert shown == self.server.vocabulary.decode(stream.delivered)
        assert SECRET not in client.text
        assert "GARBAGE" not in client.text
        assert "SECRET" not in client.text

    def check_complete(self, text: str, reason: str) -> None:
        self.check()
        assert self.stream.state is State.COMPLETE
        assert self.client.done == 1
        assert self.client.finish_reasons == [reason]
        assert self.client.text == text


@lru_cache(maxsize=1000)
def _wire(server: Server, name: str, route: Route, body: bytes) -> bytes:
    return b"".join(replace(server, name=name).events(route, body))


def cut_at(server: Server, route: Route, cuts: Sequence[int], **more: object) -> Run:
    """Run with one more leg for each cut, in bytes of that leg."""
    run = Run(server, route, **more)  # type: ignore[arg-type]
    for cut in cuts:
        if run.stream.state is State.COMPLETE or run.never:
            break
        run.take([run.wire()[:cut]])
        run.check()
    return run


# Every byte for one text of each route; for the others every 13th, which is in every frame.
@pytest.mark.parametrize(
    ("route", "text", "step"),
    [
        (Route.CHAT, TEXTS["chinese"].encode(), 1),
        (Route.COMPLETIONS, b"\xff\xfea\x80\x80b\xe6\xb0", 1),
        (Route.COMPLETIONS, TEXTS["chinese"].encode(), 13),
        (Route.CHAT, TEXTS["emoji"].encode(), 13),
        (Route.COMPLETIONS, TEXTS["thai"].encode(), 13),
        (Route.CHAT, TEXTS["mixed"].encode(), 13),
    ],
)
def test_cut_at_every_place_of_the_wire(route: Route, text: bytes, step: int) -> None:
    short = server(text[:10])
    more: dict[str, Any] = {"max_tokens": 40, "stream_options": {"include_usage": True}}
    want = Run(short, route, **more).whole()
    wire = Run(short, route, **more).wire()
    for cut in range(0, len(wire), step):
        run = cut_at(short, route, [cut], **more)
        if run.stream.state is not State.COMPLETE:
            run.whole()
        run.check_complete(short.text(40), "stop")
        assert run.stream.delivered == want.stream.delivered
        assert run.client.usages == want.client.usages
        assert run.client.numbers == want.client.numbers


@pytest.mark.parametrize("name", TEXTS)
def test_cut_after_every_token(name: str) -> None:
    long = server(TEXTS[name].encode())
    limit = len(long.script) + 5
    events = long.events(Route.CHAT, Run(long, Route.CHAT, max_tokens=limit).stream.later())  # type: ignore[arg-type]
    for cut in range(len(events)):
        run = cut_at(long, Route.CHAT, [sum(map(len, events[:cut]))], max_tokens=limit)
        if run.stream.state is not State.COMPLETE:
            run.whole()
        run.check_complete(TEXTS[name], "stop")


texts = some.one_of(
    some.text(max_size=20).map(lambda t: t.encode("utf-8", "replace")),
    some.binary(max_size=20),
    some.sampled_from([t.encode() for t in TEXTS.values()]),
)
routes = some.sampled_from([Route.CHAT, Route.COMPLETIONS])


@settings(max_examples=300, deadline=None)
@given(texts, routes, some.lists(some.integers(0, 6000), max_size=4), some.integers(1, 40))
def test_cut_several_times_anywhere(text: bytes, route: Route, cuts: list[int], limit: int) -> None:
    one = server(text)
    tokens, end = one.tokens(one.prompt, limit)
    run = cut_at(one, route, cuts, max_tokens=limit)
    if run.stream.state is not State.COMPLETE:
        run.whole()
    run.check_complete(one.text(limit), end)
    assert run.stream.delivered == tokens


@settings(max_examples=300, deadline=None)
@given(texts, routes, some.lists(some.integers(0, 6000), max_size=3), some.data())
def test_stop_strings_are_found_over_all_legs(
    text: bytes, route: Route, cuts: list[int], data: some.DataObject
) -> None:
    one = server(text)
    full = one.text(200)
    inside = some.integers(0, max(0, len(full) - 1)).flatmap(
        lambda at: some.integers(1, 6).map(lambda size: full[at : at + size])
    )
    stops = (
        data.draw(
            some.lists(
                some.one_of(inside.filter(bool), some.text(min_size=1, max_size=3)),
                min_size=1,
                max_size=3,
            )
        )
        if full
        else ["never"]
    )
    run = cut_at(one, route, cuts, max_tokens=200, stop=stops)
    if run.stream.state is not State.COMPLETE:
        run.whole()
    ends = [
        (full.find(stop) + len(stop), -number) for number, stop in enumerate(stops) if stop in full
    ]
    if not ends:
        run.check_complete(full, "stop")
        return
    end, number = min(ends, key=lambda pair: (pair[0], -pair[1]))
    run.check_complete(full[: end - len(stops[-number])], "stop")
    assert run.client.stop_reasons == [stops[-number]]
    # The tokens up to and with the one that completed it are counted, and no more.
    assert len(one.read(run.stream.delivered)) >= end
    assert len(one.read(run.stream.delivered[:-1])) < end


@settings(max_examples=200, deadline=None)
@given(
    texts,
    routes,
    some.lists(some.integers(1, 400), min_size=1),
    some.sampled_from([(), ("水", "ok"), ("a",)]),
)
def test_a_stream_in_pieces_gives_what_it_gives_whole(
    text: bytes, route: Route, sizes: list[int], stop: tuple[str, ...]
) -> None:
    one = server(text)
    whole, pieces = (
        Run(one, route, max_tokens=200, stop=stop),
        Run(one, route, max_tokens=200, stop=stop),
    )
    wire = pieces.wire()
    whole.whole()
    cuts = [0, *itertools.accumulate(itertools.islice(itertools.cycle(sizes), len(wire)))]
    pieces.take([wire[a:b] for a, b in itertools.pairwise(cuts)])
    assert pieces.client == whole.client
    assert pieces.billed == whole.billed


@settings(max_examples=200, deadline=None)
@given(
    texts,
    some.lists(some.integers(1, 4), min_size=1, max_size=5),
    some.lists(some.integers(0, 4000), max_size=3),
)
def test_frames_of_several_tokens_go_on_cleanly_or_not_at_all(
    text: bytes, sizes: list[int], cuts: list[int]
) -> None:
    one = server(text, per_frame=tuple(sizes))
    run = cut_at(one, Route.CHAT, cuts, max_tokens=200)
    if not run.never and run.stream.state is not State.COMPLETE:
        run.whole()
    run.check()
    if run.never:
        assert "several tokens" in run.never.why
    else:
        run.check_complete(one.text(200), "stop")


def test_a_frame_of_several_tokens_is_clean_when_its_last_one_is_known_as_whole() -> None:
    taught = Learned(fingerprint=b"")
    teacher = Run(server(b"abc"), Route.CHAT, max_tokens=9)
    teacher.stream = Stream(teacher.stream.ask, "r", 1, taught)
    teacher.whole()
    assert {LETTERS + ord(letter) for letter in "abc"} <= taught.whole
    for text, clean in (("水c".encode(), True), ("c水".encode()[:2] + b"d", False)):
        one = server(text * 3, per_frame=(len(VOCABULARY.encode(text)),))
        run = Run(one, Route.CHAT, max_tokens=200)
        run.stream = Stream(run.stream.ask, "r", 1, Learned(set(taught.whole), b""))
        events = one.events(Route.CHAT, run.stream.later())  # type: ignore[arg-type]
        run.take(events[:2])
        assert isinstance(run.stream.later(), bytes) is clean


@settings(max_examples=100, deadline=None)
@given(texts, routes, some.integers(0, 5000), some.sampled_from([(), ("水", "ok"), ("溺れ",)]))
def test_another_gateway_goes_on_from_a_snapshot(
    text: bytes, route: Route, cut: int, stop: tuple[str, ...]
) -> None:
    one = server(text)
    want = Run(one, route, max_tokens=200, stop=stop).whole()
    run = cut_at(one, route, [cut], max_tokens=200, stop=stop)
    if run.stream.state is not State.COMPLETE:
        run.client.read(run.stream.goodbye({"type": "shutdown"}))
        plain = json.loads(json.dumps(snapshot(run.stream)))
        run.stream = restored(plain)
        run.legs = 7
        run.whole()
        run.check()
    assert run.client.text == want.client.text
    assert run.client.finish_reasons == want.client.finish_reasons
    assert run.billed == want.billed
