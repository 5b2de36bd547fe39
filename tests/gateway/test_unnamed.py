"""Answers whose token ids are not told: billed by the usage so far, or one token for each event."""

import json

import pytest

from gateway.ask import Route, ask
from gateway.stream import State, Stream
from tests.gateway.responding import frame, usage

ASKED = {"model": "tiny", "prompt": "Hello", "stream": True, "max_tokens": 100}


def stream() -> Stream:
    asked = ask(Route.COMPLETIONS, json.dumps(ASKED).encode(), forbid_resume=False)
    return Stream(asked, "r", 1)


@pytest.mark.parametrize(
    ("frames", "unnamed", "is_guess"),
    [
        pytest.param([frame()] * 3, 3, True, id="nothing is told"),
        pytest.param([frame(""), frame()], 1, True, id="without text it is none"),
        pytest.param([frame(usage=2), frame(usage=7)], 7, False, id="the number is told"),
        pytest.param([frame("", usage=2), frame(usage=3)], 3, False, id="held text is told of"),
    ],
)
def test_tokens_without_ids_are_counted(
    frames: list[bytes], unnamed: int, *, is_guess: bool
) -> None:
    one = stream()
    assert one.feed(b"".join(frames)).state is State.RUNNING
    assert (one.unnamed, one.is_guess) == (unnamed, is_guess)
    assert one.completion_tokens == unnamed


def test_tokens_with_ids_are_counted_by_their_ids_alone() -> None:
    one = stream()
    named = frame(usage=1).replace(b'"finish_reason"', b'"token_ids":[7],"finish_reason"')
    assert one.feed(named).ids == [7]
    assert (one.unnamed, one.is_guess, one.completion_tokens) == (0, False, 1)


def test_usage_at_the_end_is_what_the_client_is_told() -> None:
    one = stream()
    one.feed(frame() + frame(finish="length") + usage(3))
    assert one.completion_tokens == 3
