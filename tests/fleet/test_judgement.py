"""Every state there is, by a history that leads to it, with the whole of its sentence."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from fleet.backend import Kind
from fleet.fetch import Failure, Trouble
from fleet.history import History, Look, after, told_of_pause
from fleet.judgement import judge
from fleet.reading import Reading
from fleet.state import State
from tests.fleet.pages import BUSY, IDLE, page
from tests.fleet.watching import REFUSED, TIMEOUT, backend, watch


def reading(values: Mapping[str, float], start: float | None = 1000.0) -> Reading:
    return Reading.from_page(page({"0": values}, start))


def seen(results: Iterable[Reading | Failure]) -> History:
    return list(watch(results))[-1].history


ASLEEP = {**BUSY, "awake": 0}
DEFERRED = {**IDLE, "waiting": 2, "deferred": 2}
NEW = {**IDLE, "steps": 0, "generated": 0, "running": 1}
MOVED = {**BUSY, "steps": 153, "generated": 407}

HISTORIES: Mapping[State, History] = {
    State.IDLE: seen([reading(IDLE)] * 2),
    State.BUSY: seen([reading(BUSY), reading(MOVED)]),
    State.QUIET: seen([reading(BUSY)] * 6),
    State.STUCK: seen([reading(BUSY)] * 10),
    State.STARVED: seen([reading(DEFERRED)] * 18),
    State.RESTARTED: seen([reading(BUSY), reading(BUSY, 1700.0)]),
    State.SLEEPING: seen([reading(ASLEEP)] * 20),
    State.PAUSED: told_of_pause(seen([reading(BUSY)] * 9), paused=True, at=1120.0),
    State.STARTING: seen([reading(NEW)] * 4),
    State.NO_METRICS: seen([Reading()]),
    State.PROXY: seen([Reading()]),
    State.BEHIND_PROXY: seen([reading(BUSY, start) for start in (1000.0, 1500.0, 1000.0)]),
    State.UNRESPONSIVE: seen([reading(BUSY), TIMEOUT, TIMEOUT]),
    State.ENGINE_DEAD: replace(seen([reading(BUSY)]), dead=True),
    State.DOWN: seen([reading(BUSY), REFUSED]),
    State.UNKNOWN: seen([Failure(Trouble.UNAUTHORISED, "/metrics answered HTTP 401")]),
}
SENTENCES: Mapping[State, str] = {
    State.IDLE: "idle: nothing running or waiting",
    State.BUSY: "busy: 2 running, 1 waiting, 107 tokens and 53 steps in 15.0 s",
    State.QUIET: "quiet: 2 running, 1 waiting, and nothing moved for 75 s; proven stuck at 120 s",
    State.STUCK: "stuck: 2 running, 1 waiting, and nothing moved for 135 s (two waits are 120 s)",
    State.STARVED: (
        "starved: 0 running, 2 waiting (2 for something outside the engine) and no work done for "
        "255 s (four waits are 240 s)"
    ),
    State.RESTARTED: (
        "restarted: another process than before: start time changed from 1000 to 1700"
    ),
    State.SLEEPING: "sleeping: put to sleep, 2 running, 1 waiting",
    State.PAUSED: "paused: /is_paused says so; 2 running, 1 waiting",
    State.STARTING: (
        "starting: 1 running, and nothing has come out of this process yet: it compiles, perhaps; "
        "silence counts from 180 s after it was first seen"
    ),
    State.NO_METRICS: "no_metrics: /metrics answers, but without any metric of a vLLM engine",
    State.PROXY: "proxy: declared a proxy, which has no engine of its own; it answers",
    State.BEHIND_PROXY: (
        "behind_proxy: 2 processes answer by turns at this address (by their start times); "
        "list each with its own URL, they cannot be judged through a proxy"
    ),
    State.UNRESPONSIVE: (
        "unresponsive: /metrics did not answer in full within 5 s, 2 reads in a row"
    ),
    State.ENGINE_DEAD: "engine_dead: /health answers 503, the engine process is gone",
    State.DOWN: "down: the connection was refused",
    State.UNKNOWN: "unknown: /metrics answered HTTP 401",
}


@pytest.mark.parametrize("state", State)
def test_each_state_has_its_sentence_with_its_numbers(state: State) -> None:
    kind = Kind.PROXY if state is State.PROXY else Kind.VLLM
    verdict = judge(HISTORIES[state], backend(kind=kind)).backend
    assert (verdict.state, verdict.why) == (state, SENTENCES[state])


UPDATES = "vllm:rl_weight_update_operations_in_flight"


def test_weights_that_are_being_updated_are_a_pause() -> None:
    updating = Reading.from_page(page({"0": BUSY}, 1000.0) + f'{UPDATES}{{operation="update"}} 1\n')
    assert judge(seen([updating] * 30), backend()).backend == (
        judge(seen([updating] * 2), backend()).backend
    )
    verdict = judge(seen([updating] * 30), backend()).backend
    assert verdict.why == "paused: weights are being updated; 2 running, 1 waiting"


def test_where_weights_are_updated_silence_is_unknown() -> None:
    updates = Reading.from_page(page({"0": BUSY}, 1000.0) + f'{UPDATES}{{operation="update"}} 0\n')
    verdict = judge(seen([updates] * 30), backend()).backend
    assert verdict.why == (
        "unknown: 2 running, 1 waiting, and nothing has moved for 435 s, but weights are updated "
        "here at times, and /is_paused does not say that it is running"
    )


def test_a_process_that_has_put_something_out_is_given_no_more_time() -> None:
    warm = [reading({**NEW, "steps": 1})] * 10
    assert judge(seen(warm), backend()).backend.state is State.STUCK
    assert judge(seen([reading(NEW)] * 10), backend()).backend.state is State.STARTING
    hung = [reading(NEW)] * (1 + 180 // 15 + 120 // 15 + 1)
    assert judge(seen(hung), backend()).backend.state is State.STUCK
    assert judge(seen(hung[:-2]), backend()).backend.state is State.QUIET


def test_a_pause_takes_what_silence_there_was() -> None:
    history = seen([reading(BUSY)] * 9)
    assert history.engines["0"].quiet.seconds > 100
    history = told_of_pause(history, paused=True, at=1120.5)
    assert history.engines["0"].quiet.seconds == 0
    history = after(history, Look(1135.0, 1135.1, reading(BUSY)), interval=15.0, warm_up=180.0)
    assert history.engines["0"].quiet.seconds == 0
    history = told_of_pause(history, paused=False, at=1135.2)
    history = after(history, Look(1150.0, 1150.1, reading(BUSY)), interval=15.0, warm_up=180.0)
    assert history.engines["0"].quiet.seconds == pytest.approx(14.9)
