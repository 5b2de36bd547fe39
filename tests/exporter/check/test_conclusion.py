"""What a check comes to, by table."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from exporter.check.conclusion import Looked, Outcome, outcome, settled
from fleet.answer import Answer, Result
from fleet.fetch import Failure, Trouble
from fleet.history import History, asking, heard, told_of_pause
from fleet.judgement import judge
from fleet.reading import Reading
from tests.fleet.pages import BUSY, IDLE, page
from tests.fleet.watching import REFUSED, TIMEOUT, backend, watch

HEALTHY, PROVEN = Outcome.HEALTHY, Outcome.PROVEN
CANNOT_JUDGE, UNDECIDED = Outcome.CANNOT_JUDGE, Outcome.UNDECIDED


def reading(*engines: Mapping[str, float], start: float = 1000.0) -> Reading:
    return Reading.from_page(page({str(i): e for i, e in enumerate(engines)}, start))


def seen(results: Iterable[Reading | Failure]) -> History:
    return list(watch(results))[-1].history


def looked(
    history: History, *, dead_looks: int = 0, asks: bool = True, seconds: float = 0.0
) -> Looked:
    if dead_looks:
        history = replace(history, dead=True)
    return Looked(history, judge(history, backend()), dead_looks, asks, seconds)


MOVED = {**BUSY, "steps": 120}
ANSWER = Answer(Result.ANSWERED, 0.1, "answered in 0.10 s")
ERROR = Answer(Result.ERROR, 0.0, "HTTP 500")
IDLE_TWICE = seen([reading(IDLE)] * 2)
ASKED = asking(IDLE_TWICE, "0", 1020.0)
UNAUTHORISED = Failure(Trouble.UNAUTHORISED, "401", 401)
STILL = seen([reading(BUSY)] * 2)

# What was looked at, the outcome while looks go on, and the outcome of one call of several.
CASES: Mapping[str, tuple[Looked, Outcome, Outcome]] = {
    "not read yet but in time": (looked(seen([reading(BUSY)])), UNDECIDED, UNDECIDED),
    "it moves": (looked(seen([reading(BUSY), reading(MOVED)])), HEALTHY, HEALTHY),
    "silent for one look": (looked(STILL), UNDECIDED, UNDECIDED),
    "silent for one wait": (looked(seen([reading(BUSY)] * 6)), UNDECIDED, UNDECIDED),
    "silent for two waits": (looked(seen([reading(BUSY)] * 10)), PROVEN, PROVEN),
    "idle and not asked yet": (looked(IDLE_TWICE), UNDECIDED, UNDECIDED),
    "idle and asked": (looked(ASKED), UNDECIDED, UNDECIDED),
    "idle and it answers": (looked(heard(ASKED, "0", ANSWER, 1021.0)), HEALTHY, HEALTHY),
    "idle and an error": (looked(heard(ASKED, "0", ERROR, 1021.0)), UNDECIDED, UNDECIDED),
    "idle and never asked": (looked(IDLE_TWICE, asks=False), HEALTHY, HEALTHY),
    "asleep": (looked(seen([reading({**BUSY, "awake": 0})])), HEALTHY, HEALTHY),
    "paused": (looked(told_of_pause(STILL, paused=True, at=1016.0)), HEALTHY, HEALTHY),
    "restarted": (looked(seen([reading(BUSY), reading(BUSY, start=2e3)])), UNDECIDED, UNDECIDED),
    "seen dead once": (looked(STILL, dead_looks=1), UNDECIDED, UNDECIDED),
    "seen dead twice": (looked(STILL, dead_looks=2), PROVEN, PROVEN),
    "refused once": (looked(seen([REFUSED])), UNDECIDED, CANNOT_JUDGE),
    "refused twice": (looked(seen([REFUSED] * 2)), CANNOT_JUDGE, CANNOT_JUDGE),
    "no key": (looked(seen([UNAUTHORISED] * 2)), CANNOT_JUDGE, CANNOT_JUDGE),
    "timed out": (looked(seen([TIMEOUT] * 3), seconds=59.0), UNDECIDED, CANNOT_JUDGE),
    "timed out for a wait": (looked(seen([TIMEOUT] * 5), seconds=60.0), CANNOT_JUDGE, CANNOT_JUDGE),
    "no vLLM": (looked(seen([Reading()])), CANNOT_JUDGE, CANNOT_JUDGE),
    "behind a proxy": (
        looked(seen([reading(BUSY, start=start) for start in (1.0, 2.0, 1.0)])),
        CANNOT_JUDGE,
        CANNOT_JUDGE,
    ),
    "one engine of two stuck": (
        looked(seen(reading(BUSY, {**BUSY, "steps": i}) for i in range(10))),
        PROVEN,
        PROVEN,
    ),
    "one of two moves, one is idle": (
        looked(seen(reading(IDLE, {**BUSY, "steps": i}) for i in range(3))),
        UNDECIDED,
        UNDECIDED,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_seen_has_its_outcome(case: tuple[Looked, Outcome, Outcome]) -> None:
    what, going_on, one_call = case
    assert outcome(what, patience=60.0) is going_on
    assert settled(what) is one_call


def test_quiet_and_unresponsive_is_never_proof() -> None:
    history = seen([*[reading(BUSY)] * 8, *[TIMEOUT] * 30])
    assert outcome(looked(history, seconds=1e6), patience=60.0) is CANNOT_JUDGE
