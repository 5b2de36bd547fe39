"""The benchmark of roll-outs: what it counts, and a small one of it, played in full."""

import dataclasses
import json
from collections.abc import Callable

import pytest

from benchmarks.rollout.score import Billed, by_usage, score
from benchmarks.rollout.stream import End, Seen, Wanted, _take


def seen(end: End, tokens: int, *, of: int = 10, usage: int | None = None) -> Seen:
    wanted = Wanted.new(of)
    words = wanted.text().split(" ")[1:]
    text = "".join(f" {word}" for word in words[:tokens])
    return Seen(wanted, end, text, usage, stall=tokens / 10, why="" if usage else "it broke")


def billed(*pairs: tuple[Seen, int]) -> dict[str, Billed]:
    return {
        one.wanted.request_id: Billed(len(one.wanted.prompt), completion)
        for one, completion in pairs
    }


def test_a_text_has_as_many_tokens_as_were_asked_for() -> None:
    assert seen(End.COMPLETE, 10).tokens == 10
    assert seen(End.CUT, 4).tokens == 4


def test_a_whole_stream_that_is_billed_is_without_fault() -> None:
    whole = seen(End.COMPLETE, 10, usage=10)
    found = score([whole], billed((whole, 10)), 5.0)
    assert dataclasses.astuple(found)[1:8] == (0, 0.0, 0.0, 0.0, 0, 0, 5.0)
    assert found.longest_stall_s == 1.0
    assert not found.whys


def test_what_was_delivered_and_is_not_billed_is_counted_in_tokens() -> None:
    whole, cut = seen(End.COMPLETE, 10, usage=10), seen(End.CUT, 6)
    found = score([whole, cut], by_usage([whole, cut]), 5.0)
    assert found.cut == 1
    assert found.unbilled_pct == pytest.approx(100 * 6 / 16)
    assert found.overbilled_pct == 0.0
    assert found.whys == {"cut: it broke": 1}


def test_what_is_billed_and_was_not_delivered_is_counted_too() -> None:
    cut, whole = seen(End.CUT, 6), seen(End.COMPLETE, 10)
    found = score([cut, whole], billed((cut, 8), (whole, 10)), 5.0)
    assert found.unbilled_pct == 0.0
    assert found.overbilled_pct == pytest.approx(100 * 2 / 16)


def test_refused_requests_are_no_cut_streams_and_no_stalls() -> None:
    refused = Seen(Wanted.new(10), why="503", stall=7.0)
    found = score([refused, *(seen(End.COMPLETE, 10) for _ in range(3))], {}, 5.0)
    assert found.refused_pct == 25.0
    assert found.cut == 0
    assert found.longest_stall_s == 1.0


def test_a_prompt_that_is_charged_twice_is_counted() -> None:
    whole = seen(End.COMPLETE, 10)
    twice = Billed(2 * len(whole.wanted.prompt), 10)
    assert score([whole], {whole.wanted.request_id: twice}, 5.0).double_prompts == 1


@pytest.mark.parametrize(
    ("end", "change", "wrong"),
    [
        (End.COMPLETE, str, 0),
        (End.COMPLETE, lambda text: text[:-1], 1),
        (End.COMPLETE, lambda text: text + " sea", 1),
        (End.CUT, lambda text: text[:7], 0),
        (End.CUT, lambda text: text[1:], 1),
    ],
    ids=["whole", "a piece is missing", "a piece too many", "cut", "cut, and another"],
)
def test_a_text_is_held_against_that_of_a_server_left_alone(
    end: End, change: Callable[[str], str], wrong: int
) -> None:
    one = seen(end, 10)
    one.text = change(one.text)
    assert score([one], {}, 5.0).text_errors == wrong


def frame(**choice: object) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": None} | choice]})


@pytest.mark.parametrize(
    ("frames", "end"),
    [
        ([], End.REFUSED),
        ([frame(delta={"content": "a"})], End.CUT),
        ([frame(finish_reason="length"), "[DONE]"], End.COMPLETE),
        ([frame(finish_reason="abort"), "[DONE]"], End.CUT),
        ([frame(delta={"content": "a"}), "[DONE]"], End.CUT),
        ([frame(finish_reason="length"), '{"error": {"message": "no"}}'], End.CUT),
    ],
    ids=["nothing", "no end", "whole", "aborted", "only [DONE]", "an error"],
)
def test_only_a_true_end_is_one(frames: list[str], end: End) -> None:
    one = Seen(Wanted.new(1))
    for data in frames:
        _take(one, data)
    assert one.end is end
