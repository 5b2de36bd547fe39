from typing import Any

import pytest

from fleet.settings import Mode
from remediator.incident import Attempt, AttemptState
from remediator.proof import Request
from remediator.recovery import Aftermath, end
from tests.remediator.making import START, at, attempt, engine, reading

DEADLINE = at(600)
DONE = attempt(AttemptState.STARTING, before=reading(), exit_status=0)
TAKEN_UP = attempt(AttemptState.STARTING, before=reading(), exit_status=None)
NOT_READ = attempt(AttemptState.STARTING, before=None, exit_status=0)
MULTI = attempt(AttemptState.STARTING, before=reading(None), exit_status=0)
SHADOW = attempt(AttemptState.STARTING, mode=Mode.SHADOW, before=reading())
ALL_ENGINES = attempt(AttemptState.STARTING, mode=Mode.SHADOW, before=reading(), engine=None)
UNREAD_SHADOW = attempt(AttemptState.STARTING, mode=Mode.SHADOW, before=None)
OTHER_ENGINE = attempt(AttemptState.STARTING, mode=Mode.SHADOW, before=reading(), engine="1")

NEW = reading(START + 500, e0=engine(steps=0.0, generation_tokens=0.0, kv_usage=0.0))
FELL = reading(None, e0=engine(steps=0.0, generation_tokens=0.0))
WENT_ON = reading(e0=engine(steps=5000.0))
NO_PAGE = Aftermath(None, "the connection was refused")
ANSWER: dict[str, Any] = {"request": Request.ANSWERED, "request_why": "answered in 0.05 s"}
SILENCE: dict[str, Any] = {"request": Request.UNANSWERED, "request_why": "not answered within 30 s"}

RECOVERED, STILL_STUCK = AttemptState.RECOVERED, AttemptState.STILL_STUCK
NOT_BACK, INTERRUPTED = AttemptState.NOT_BACK, AttemptState.INTERRUPTED

TABLE: dict[str, tuple[Attempt, Aftermath, AttemptState | None, AttemptState]] = {
    "a new process that answers": (DONE, Aftermath(NEW, **ANSWER), RECOVERED, RECOVERED),
    "a new process that works": (DONE, Aftermath(NEW, moved=True), RECOVERED, RECOVERED),
    "a new process that is silent": (DONE, Aftermath(NEW, **SILENCE), None, STILL_STUCK),
    "a new process that was not asked": (DONE, Aftermath(NEW), None, STILL_STUCK),
    "nobody listens": (DONE, NO_PAGE, None, NOT_BACK),
    "the same process, silent": (DONE, Aftermath(reading(), **SILENCE), None, STILL_STUCK),
    "the same process, answering": (DONE, Aftermath(reading(), **ANSWER), None, RECOVERED),
    "the same process, at work": (DONE, Aftermath(WENT_ON, moved=True), None, RECOVERED),
    "taken up, and nobody listens": (TAKEN_UP, NO_PAGE, None, NOT_BACK),
    "taken up, the same process": (TAKEN_UP, Aftermath(reading(), **SILENCE), None, INTERRUPTED),
    "taken up, a new process": (TAKEN_UP, Aftermath(NEW, **ANSWER), RECOVERED, RECOVERED),
    "taken up, a new silent process": (TAKEN_UP, Aftermath(NEW, **SILENCE), None, STILL_STUCK),
    "not read before, and it answers": (
        NOT_READ,
        Aftermath(reading(), **ANSWER),
        RECOVERED,
        RECOVERED,
    ),
    "no start time, and it answers": (
        MULTI,
        Aftermath(reading(None), **ANSWER),
        RECOVERED,
        RECOVERED,
    ),
    "no start time, and counters fell": (MULTI, Aftermath(FELL, **ANSWER), RECOVERED, RECOVERED),
    "no start time, and silent": (
        MULTI,
        Aftermath(reading(None), **SILENCE),
        None,
        STILL_STUCK,
    ),
    "in shadow it went on by itself": (SHADOW, Aftermath(WENT_ON), RECOVERED, RECOVERED),
    "in shadow any engine went on": (ALL_ENGINES, Aftermath(WENT_ON), RECOVERED, RECOVERED),
    "in shadow another engine went on": (OTHER_ENGINE, Aftermath(WENT_ON), None, STILL_STUCK),
    "in shadow somebody restarted it": (SHADOW, Aftermath(NEW), RECOVERED, RECOVERED),
    "in shadow it stands still": (SHADOW, Aftermath(reading()), None, STILL_STUCK),
    "in shadow nobody listens": (SHADOW, NO_PAGE, None, STILL_STUCK),
    "in shadow it had not been read": (UNREAD_SHADOW, Aftermath(NEW), RECOVERED, RECOVERED),
}


@pytest.mark.parametrize(("tried", "seen", "early", "late"), TABLE.values(), ids=list(TABLE))
def test_how_an_attempt_ends_before_and_at_its_deadline(
    tried: Attempt, seen: Aftermath, early: AttemptState | None, late: AttemptState
) -> None:
    before = end(tried, seen, at(599), DEADLINE)
    assert (before.state if before else None) is early
    at_last = end(tried, seen, DEADLINE, DEADLINE)
    assert at_last is not None
    assert at_last.state is late
    assert at_last.why


def test_an_end_tells_the_start_of_the_new_process() -> None:
    ended = end(DONE, Aftermath(NEW, **ANSWER), at(10), DEADLINE)
    assert ended is not None
    assert ended.start_time == START + 500
