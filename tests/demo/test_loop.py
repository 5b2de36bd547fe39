"""Driving engines by a clock that is set by hand."""

from demo.vllm.engine import Engine
from demo.vllm.fault import Freeze, Load, Slow, Thaw
from demo.vllm.limits import Limits
from demo.vllm.loop import STALL_SECONDS, End, EngineLoop
from demo.vllm.request import Request

REQUEST = Request("r", (1, 2), 5000)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_process_that_did_not_run_did_not_work() -> None:
    clock = Clock()
    loop = EngineLoop([Engine(Limits(steps_per_second=50))], clock)
    loop.submit(REQUEST)
    clock.now += 60
    loop.act(Thaw(None))
    assert loop.published()[0].generation_tokens == 0
    clock.now += STALL_SECONDS
    loop.act(Thaw(None))
    assert loop.published()[0].generation_tokens > 50


def test_a_fault_applies_to_what_is_left_after_its_moment() -> None:
    clock = Clock()
    loop = EngineLoop([Engine(Limits(steps_per_second=50))], clock)
    loop.submit(REQUEST)
    clock.now += 1
    loop.act(Freeze(None))
    before = loop.published()[0].generation_tokens
    clock.now += 60
    loop.act(Slow(1.0, None))
    assert loop.published()[0].generation_tokens == before > 40


def test_a_stream_is_given_its_outputs_only() -> None:
    clock = Clock()
    loop = EngineLoop([Engine(Limits(steps_per_second=50))], clock)
    stream = loop.submit(Request("mine", (1,), 1))
    loop.act(Load(requests=2, prompt_tokens=1, max_tokens=3, engine=None))
    clock.now += 1
    loop.act(Thaw(None))
    first = stream.take()
    assert not isinstance(first, End)
    assert (first.request_id, first.finish) == ("mine", "length")
    assert loop.published()[0].generation_tokens == 7
