"""What a relayed answer costs, wherever it is cut, and where an event of it ends."""

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tally import EventsTally, Tally, tally_for
from tests.gateway.memory import peak
from tests.gateway.responding import event

USAGE = {"input_tokens": 4, "output_tokens": 5}


def delta(kind: str = "response.output_text", text: object = " x", **members: object) -> bytes:
    return event(f"{kind}.delta", delta=text, **members)


def completed(usage: object = USAGE, **members: object) -> bytes:
    return event("response.completed", response={"id": "resp_1", **members, "usage": usage})


def tallied(pieces: Sequence[bytes], content_type: str = "text/event-stream") -> Tally:
    tally = tally_for(content_type)
    for piece in pieces:
        tally.add(piece)
    return tally


STREAM = b"".join(
    (
        event("response.created", response={"usage": None}),
        b": a comment\n\n",
        delta(text='data: {"usage": {"output_tokens": 99}}\n\n'),
        delta("response.reasoning_text"),
        delta("response.function_call_arguments"),
        delta(text=""),
        event("response.output_text.done", text=" x x"),
        completed(text="\\\n\n"),
    )
)


@given(
    places=st.lists(st.integers(0, len(STREAM))),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_the_count_does_not_depend_on_where_a_stream_is_cut(
    places: list[int], line_end: bytes
) -> None:
    stream = STREAM.replace(b"\n", line_end)
    cuts = [0, *sorted(places), len(stream)]
    tally = tallied([stream[a:b] for a, b in itertools.pairwise(cuts)])
    assert (tally.prompt_tokens, tally.tokens) == (4, 5)
    assert tally.is_told
    assert tally.is_whole


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [
        pytest.param([delta()] * 3, 3, id="each event with text is one token"),
        pytest.param([delta(text="")] * 3, 0, id="one without text is none"),
        pytest.param([delta(logprobs=[{}, {}])], 2, id="log probabilities tell how many"),
        pytest.param([delta(logprobs=[])], 1, id="where there are any"),
        pytest.param([delta(text="x" * 100_000)], 1, id="a long one is one"),
        pytest.param([delta(text={"content": "We"})], 1, id="an older server's object is one"),
        pytest.param([delta(), completed()], 5, id="usage counts where it is more"),
        pytest.param([delta()] * 7 + [completed()], 7, id="what was sent counts where it is more"),
        pytest.param([event("response.output_text.done", text="x")], 0, id="no text again"),
        pytest.param([b'data: {"type": [1], "delta": "x"}\n\n'], 0, id="no type"),
        pytest.param([b"data: [DONE]\n\ndata: {\n\ndata: 7\n\n"], 0, id="no object"),
        pytest.param([completed({"output_tokens": 10**30})], 2**31 - 1, id="a huge number"),
        pytest.param([completed({"output_tokens": -1})], 0, id="a negative number"),
    ],
)
def test_tokens_of_a_stream(pieces: list[bytes], tokens: int) -> None:
    assert tallied(pieces).tokens == tokens


@pytest.mark.parametrize("size", [1, 1000, 65536, 10**9])
def test_a_long_last_event_tells_its_usage(size: int) -> None:
    logprobs = [{"token": " x", "top_logprobs": [{"token": '"}'}] * 20}] * 3000
    last = completed(output=[{"content": [{"logprobs": logprobs}]}])
    assert len(last) > 512 * 1024
    tally = tallied([last[i : i + size] for i in range(0, len(last), size)])
    assert (tally.prompt_tokens, tally.tokens, tally.is_whole) == (4, 5, True)


def test_a_long_whole_answer_tells_its_usage() -> None:
    vectors = [{"index": i, "embedding": [0.07154017686843872] * 1024} for i in range(500)]
    usage = {"prompt_tokens": 50_000, "total_tokens": 50_000, "completion_tokens": 0}
    answer = json.dumps({"object": "list", "data": vectors, "usage": usage}).encode()
    assert len(answer) > 8 * 1024 * 1024
    pieces = [answer[i : i + 65536] for i in range(0, len(answer), 65536)]
    tally = tallied(pieces, "application/json")
    assert (tally.prompt_tokens, tally.tokens, tally.is_told) == (50_000, 0, True)


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", ""]
)
def test_what_an_answer_is_decides_how_it_is_read(content_type: str) -> None:
    tally = tallied([b'{"usage": {"completion_tokens": 3}}'], content_type)
    assert tally.tokens == 3
    assert not tally.is_between


def test_what_is_neither_says_nothing_of_tokens() -> None:
    tally = tallied([b'{"usage": {"completion_tokens": 3}}'], "audio/mpeg")
    assert (tally.tokens, tally.is_told, tally.is_whole) == (0, False, True)


def test_a_stream_without_its_last_event_is_not_whole() -> None:
    assert not tallied([delta()]).is_whole
    assert tallied([delta(), event("response.incomplete", response={})]).is_whole


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_between_is_in_front_of_an_event_and_behind_it(line_end: bytes) -> None:
    tally = EventsTally()
    assert tally.is_between
    one = delta().replace(b"\n", line_end)
    for i in range(len(one) - len(line_end)):
        tally.add(one[i : i + 1])
        assert not tally.is_between
    tally.add(line_end)
    assert tally.is_between
    assert tally.tokens == 1


def test_an_event_takes_bounded_memory_however_long_it_is() -> None:
    tally = EventsTally()
    with peak() as most:
        tally.add(b'data: {"type": "response.completed", "response": {"output": ["')
        for _ in range(200):
            tally.add(b"x" * 65536)
        tally.add(b'"], "usage": {"output_tokens": 3}}}\n\n')
    assert (tally.tokens, tally.is_whole) == (3, True)
    assert most() < 1024 * 1024
