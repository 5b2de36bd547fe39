"""What is remembered from look to look: when silence counts, and when it does not."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.answer import Answer, Result
from fleet.fetch import Failure, Trouble
from fleet.history import History, Look, after, asking, heard
from fleet.judgement import FAILURE_STATES, judge
from fleet.reading import Reading
from fleet.state import State
from tests.fleet.pages import BUSY, IDLE, page
from tests.fleet.watching import (
    INTERVAL,
    RECORDINGS,
    REFUSED,
    TIMEOUT,
    Step,
    backend,
    recorded,
    watch,
)

READ = 0.02
START = 1000.0


def reading(values: Mapping[str, float] = BUSY, start_time: float | None = START) -> Reading:
    return Reading.from_page(page({"0": values}, start_time))


def last(results: Iterable[Reading | Failure], *, wait: float = 60.0) -> Step:
    return list(watch(results, wait=wait))[-1]


def quiet(results: Iterable[Reading | Failure]) -> float:
    return last(results).history.engines["0"].quiet.seconds


SILENT = reading()
MOVED = reading({**BUSY, "steps": 101})


def test_silence_counts_from_the_end_of_the_first_read_to_the_beginning_of_the_last() -> None:
    assert quiet([SILENT] * 5) == pytest.approx(4 * INTERVAL - READ)


def test_anything_the_engine_writes_ends_silence() -> None:
    for name in BUSY:
        changed = {**BUSY, name: BUSY[name] + 1 if name != "awake" else 0}
        assert quiet([SILENT] * 5 + [reading(changed)]) == 0, name


def test_nothing_pending_is_no_silence() -> None:
    assert quiet([reading(IDLE)] * 9) == 0


def test_waiting_for_capacity_is_pending_and_waiting_for_something_outside_is_not() -> None:
    capacity = {**IDLE, "waiting": 3, "capacity": 3}
    deferred = {**IDLE, "waiting": 3, "deferred": 3}
    assert quiet([reading(capacity)] * 5) > 0
    assert quiet([reading(deferred)] * 5) == 0
    starved = last([reading(deferred)] * 5).history.engines["0"].starved.seconds
    assert starved == pytest.approx(4 * INTERVAL - READ)


@pytest.mark.parametrize("failure", [TIMEOUT, REFUSED], ids=["timeout", "refused"])
def test_a_failed_read_adds_no_silence_and_takes_none(failure: Failure) -> None:
    before = [SILENT] * 3
    assert quiet([*before, failure]) == quiet(before)
    # The interval across the failure does not count, the one after it does.
    assert quiet([*before, failure, SILENT]) == quiet(before)
    assert quiet([*before, failure, SILENT, SILENT]) == pytest.approx(
        quiet(before) + INTERVAL - READ
    )


@pytest.mark.parametrize(
    ("failures", "is_kept"), [(4, True), (5, False)], ids=["five intervals", "six intervals"]
)
def test_blindness_of_more_than_five_intervals_starts_afresh(failures: int, is_kept: bool) -> None:
    kept = quiet([SILENT] * 3 + [TIMEOUT] * failures + [SILENT])
    assert kept == (quiet([SILENT] * 3) if is_kept else 0)


def test_sleep_is_no_silence() -> None:
    asleep = reading({**BUSY, "awake": 0})
    seen = last([asleep] * 20)
    assert seen.judgement.backend.state is State.SLEEPING
    assert seen.history.engines["0"].quiet.seconds == 0


def test_running_that_is_nan_is_unknown_and_never_zero() -> None:
    blurred = Reading.from_page(page({"0": {**BUSY, "running": float("nan")}}, START))
    seen = last([SILENT] * 3 + [blurred] * 12)
    assert seen.judgement.backend.state is State.UNKNOWN
    assert seen.history.engines["0"].quiet.seconds == 0


def test_the_longest_silence_that_healed_is_remembered_over_a_restart() -> None:
    healed = [SILENT] * 4 + [MOVED]
    longest = last(healed).history.engines["0"].longest_quiet
    assert longest == pytest.approx(4 * INTERVAL - READ)
    again = last([*healed, reading({**BUSY, "steps": 1}, START + 500)]).history
    assert again.restarts == 1
    assert again.engines["0"].longest_quiet == longest


def test_a_line_that_appears_does_not_prove_a_left_over_page_alive() -> None:
    """A process without a start time shows its predecessor's page; one read of it was cut short."""
    cut = Reading.from_page(page({"0": {k: v for k, v in BUSY.items() if k != "kv"}}))
    seen = last([cut, *[reading(BUSY, None)] * 20])
    assert seen.history.engines["0"].quiet.seconds == 0
    assert seen.judgement.backend.state is State.UNKNOWN


def test_without_a_start_time_a_page_that_has_moved_is_believed() -> None:
    moving = [reading(BUSY, None), reading({**BUSY, "steps": 101}, None)]
    assert last([*moving, *[moving[1]] * 9]).judgement.backend.state is State.STUCK


def test_a_page_equal_to_the_one_before_an_outage_is_left_over_until_it_moves() -> None:
    moving = [reading(BUSY, None), reading({**BUSY, "steps": 101}, None)]
    left_over: list[Reading | Failure] = [*moving, REFUSED, *[moving[1]] * 20]
    assert last(left_over).judgement.backend.state is State.UNKNOWN
    again = reading({**BUSY, "steps": 102}, None)
    assert last([*left_over, again]).judgement.backend.state is State.BUSY


def test_processes_by_turns_are_behind_a_proxy_until_one_has_stayed() -> None:
    turns = [reading(BUSY, start) for start in (1000.0, 2000.0, 1000.0)]
    seen = last(turns)
    assert seen.judgement.backend.state is State.BEHIND_PROXY
    assert seen.history.restarts == 1
    stayed = list(watch([*turns, *[turns[-1]] * 40]))
    latched = [step.history for step in stayed if step.history.behind_proxy]
    assert {history.engines["0"].quiet.seconds for history in latched} == {0}
    assert len(latched) == 20


def test_a_prompt_that_is_read_block_by_block_is_work_and_a_falling_usage_is_none() -> None:
    filling = [reading({**BUSY, "kv": i / 100}) for i in range(30)]
    assert last(filling).history.engines["0"].starved.seconds == 0
    churning = [reading({**BUSY, "kv": 0.5 - i / 100}) for i in range(30)]
    engine = last(churning).history.engines["0"]
    assert engine.quiet.seconds == 0
    assert last(churning).judgement.backend.state is State.STARVED


VERDICTS = {
    "after-restart": State.BUSY,
    "behind-least-conn-proxy": State.BEHIND_PROXY,
    "busy-decode": State.BUSY,
    "frozen-while-idle": State.IDLE,
    "idle": State.IDLE,
    "long-prefill": State.BUSY,
    "multiprocess-after-restart": State.BUSY,
    "multiprocess-busy": State.BUSY,
    "multiprocess-idle": State.IDLE,
    "queue-full": State.BUSY,
}


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_on_each_recording(name: str) -> None:
    assert last(recorded(name)).judgement.backend.state is VERDICTS[name]


HANGS = ("frozen-while-running", "engine-killed")


def test_every_recording_has_a_verdict() -> None:
    names = {folder.name for folder in RECORDINGS.iterdir()}
    assert names == {*VERDICTS, *HANGS, "dp2-one-engine-frozen"}


@pytest.mark.parametrize("name", HANGS)
def test_a_recording_of_a_hang_comes_to_stuck_when_it_goes_on(name: str) -> None:
    pages = recorded(name)
    assert last([*pages, *[pages[-1]] * 9]).judgement.backend.state is State.STUCK


def test_of_two_recorded_engines_the_frozen_one_is_stuck_and_the_other_busy() -> None:
    states = {
        name: v.state
        for name, v in last(recorded("dp2-one-engine-frozen"), wait=7.0).judgement.engines.items()
    }
    assert states == {"0": State.STUCK, "1": State.BUSY}


@pytest.mark.parametrize("kind", Trouble)
def test_each_trouble_has_its_state_and_none_is_stuck(kind: Trouble) -> None:
    state = last([Failure(kind, "it failed")]).judgement.backend.state
    assert state is FAILURE_STATES[kind]
    assert state is not State.STUCK


# The short request.

ANSWERED = Answer(Result.ANSWERED, 0.1, "answered in 0.10 s")
UNANSWERED = Answer(Result.UNANSWERED, 180.0, "not answered within 180 s")
REFUSED_ANSWER = Answer(Result.ERROR, 0.0, "HTTP 429")


def idle_then_asked() -> tuple[History, float]:
    """An idle engine, read three times and then asked; with the moment."""
    history = last(recorded("frozen-while-idle")[:3]).history
    at = history.seen_at or 0.0
    return asking(history, "0", at), at


def go_on(history: History, since: float, looks: int, seen: Reading) -> History:
    for i in range(1, looks + 1):
        began = since + i * INTERVAL
        history = after(history, Look(began, began + READ, seen), interval=INTERVAL, warm_up=0.0)
    return history


FROZEN = recorded("frozen-while-idle")[-1]


def test_an_engine_frozen_while_idle_is_stuck_when_it_leaves_us_unanswered() -> None:
    history, at = idle_then_asked()
    history = go_on(history, at, 9, FROZEN)
    assert judge(history, backend()).backend.state is State.STUCK
    assert "short request" in judge(history, backend()).backend.why


def test_silence_goes_on_when_the_request_is_given_up() -> None:
    history, at = idle_then_asked()
    history = go_on(history, at, 3, FROZEN)
    history = heard(history, "0", UNANSWERED, at + 3.5 * INTERVAL)
    history = go_on(history, at + 3 * INTERVAL, 6, FROZEN)
    assert judge(history, backend()).backend.state is State.STUCK


def test_a_request_in_whose_time_something_moved_and_that_is_given_up_proves_nothing() -> None:
    history, at = idle_then_asked()
    others = Reading.from_page(page({"0": {**IDLE, "steps": 9000}}, FROZEN.start_time))
    history = go_on(history, at, 7, FROZEN)
    history = go_on(history, at + 7 * INTERVAL, 6, others)
    history = heard(history, "0", UNANSWERED, at + 13.5 * INTERVAL)
    history = go_on(history, at + 13 * INTERVAL, 8, others)
    assert history.engines["0"].quiet.seconds == 0


def test_an_answer_ends_silence() -> None:
    history, at = idle_then_asked()
    history = heard(go_on(history, at, 7, FROZEN), "0", ANSWERED, at + 7.5 * INTERVAL)
    assert history.engines["0"].quiet.seconds == 0
    assert (
        judge(go_on(history, at + 7 * INTERVAL, 3, FROZEN), backend()).backend.state is State.IDLE
    )


def test_an_error_is_neither_an_answer_nor_silence() -> None:
    history, at = idle_then_asked()
    history = heard(history, "0", REFUSED_ANSWER, at + 1)
    history = go_on(history, at, 20, FROZEN)
    assert history.engines["0"].quiet.seconds == 0
    assert "HTTP 429" in judge(history, backend()).backend.why


def test_progress_of_others_clears_an_unanswered_request() -> None:
    history, at = idle_then_asked()
    history = heard(go_on(history, at, 7, FROZEN), "0", UNANSWERED, at + 7.5 * INTERVAL)
    others = Reading.from_page(page({"0": {**BUSY, "steps": 9000}}, FROZEN.start_time))
    history = go_on(history, at + 7 * INTERVAL, 1, others)
    assert history.engines["0"].quiet.seconds == 0
    assert history.engines["0"].asked is None


def test_an_answer_of_an_engine_that_is_gone_changes_nothing() -> None:
    history, at = idle_then_asked()
    assert heard(history, "7", ANSWERED, at) == history


def test_a_request_from_before_we_were_blind_is_held_against_nobody() -> None:
    """It may have been sent to a process that was replaced meanwhile."""
    history, at = idle_then_asked()
    later = at + 7 * INTERVAL
    history = go_on(history, later, 12, FROZEN)
    assert history.engines["0"].quiet.seconds == 0


def test_a_left_over_page_of_one_engine_is_not_believed_because_another_moves() -> None:
    def both(steps: int) -> Reading:
        return Reading.from_page(page({"0": {**BUSY, "steps": steps}, "1": BUSY}))

    known = [both(100), Reading.from_page(page({"0": BUSY, "1": {**BUSY, "steps": 101}}))]
    back = Reading.from_page(page({"0": {**BUSY, "steps": 102}, "1": {**BUSY, "steps": 101}}))
    moving = Reading.from_page(page({"0": {**BUSY, "steps": 103}, "1": {**BUSY, "steps": 101}}))
    seen = last([*known, REFUSED, back, moving, *[moving] * 12])
    assert seen.judgement.engines["0"].state is State.STUCK
    assert seen.judgement.engines["1"].state is State.UNKNOWN


def test_a_value_from_before_an_absence_is_not_compared_with_a_left_over_one() -> None:
    """The predecessor wrote it after our last look; the first page after the absence lacks it."""
    seen_moving = [reading(BUSY, None), reading({**BUSY, "steps": 101}, None)]
    cut = {name: value for name, value in BUSY.items() if name != "kv"}
    back = reading({**cut, "steps": 101}, None)
    left_over = reading({**BUSY, "steps": 101, "kv": 0.3}, None)
    seen = last([*seen_moving, REFUSED, back, *[left_over] * 12])
    assert seen.history.engines["0"].quiet.seconds == 0
    assert seen.judgement.backend.state is State.UNKNOWN


def test_waking_up_does_not_make_a_left_over_page_this_process_own() -> None:
    asleep = reading({**BUSY, "awake": 0}, None)
    seen = last([asleep, *[reading(BUSY, None)] * 12])
    assert seen.history.engines["0"].quiet.seconds == 0
    assert seen.judgement.backend.state is State.UNKNOWN


# Properties.


@given(
    wait=st.floats(30.0, 300.0),
    durations=st.lists(st.floats(0.0, 5.0), min_size=80, max_size=80),
    phase=st.floats(0.0, INTERVAL),
)
def test_a_hang_is_found_within_two_waits_and_two_intervals(
    wait: float, durations: list[float], phase: float
) -> None:
    """Good reads at the interval, each of up to the timeout; the engine freezes at ``phase``."""
    history, frozen = History(), phase + INTERVAL
    for i, took in enumerate(durations):
        began = i * INTERVAL
        values = {**BUSY, "steps": 100 + min(began + took, frozen)}
        look = Look(began, began + took, Reading.from_page(page({"0": values}, START)))
        history = after(history, look, interval=INTERVAL, warm_up=0.0)
        found = judge(history, backend(wait)).backend.state is State.STUCK
        if began >= frozen + 2 * wait + 2 * INTERVAL:
            assert found
            return
        assert not found or began + took - frozen >= 2 * wait


STEPS = st.lists(st.integers(0, 3), min_size=15, max_size=15)


@given(other=STEPS, again=STEPS)
def test_the_verdict_on_one_engine_never_depends_on_another(
    other: list[int], again: list[int]
) -> None:
    def verdicts(steps: list[int]) -> list[str]:
        total = 0
        results = []
        for step in steps:
            total += step
            engines = {"0": BUSY, "1": {**BUSY, "steps": total, "running": step}}
            results.append(Reading.from_page(page(engines, START)))
        return [seen.judgement.engines["0"].why for seen in watch(results)]

    assert verdicts(other) == verdicts(again)
