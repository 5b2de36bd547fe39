"""Whether an attempt has ended, by what a look at the server shows after it."""

from dataclasses import dataclass, replace
from datetime import datetime

from fleet.progress import progress, restarted
from fleet.reading import Reading
from fleet.settings import Mode
from remediator.incident import Attempt, AttemptState, ShadowOutcome
from remediator.proof import Request


@dataclass(frozen=True)
class Aftermath:
    """A look at a server after an attempt on it.

    ``reading`` is None where there was no page, and ``why`` then says why. ``moved``: whether the
    engine wrote anything during the look itself.
    """

    reading: Reading | None
    why: str = ""
    moved: bool = False
    request: Request = Request.NOT_SENT
    request_why: str = "not sent"


@dataclass(frozen=True)
class End:
    """How an attempt ended, one sentence why, and the new process' start in Unix seconds."""

    state: AttemptState
    why: str
    start_time: float | None = None
    shadow_outcome: ShadowOutcome | None = None


def end(attempt: Attempt, seen: Aftermath, now: datetime, deadline: datetime) -> End | None:
    """How the attempt has ended, or None while it may still come right before ``deadline``."""
    came_back = _by_itself if attempt.mode is Mode.SHADOW else _recovered
    found = came_back(attempt, seen)
    if found is None and now >= deadline:
        found = _too_late(attempt, seen)
    if found is None:
        return None
    return replace(found, start_time=seen.reading.start_time if seen.reading else None)


def new_process(before: Reading | None, reading: Reading) -> bool:
    """Whether a page is of another process than the one before the attempt, as far as it tells.

    Where there was no page before, any page is; in multiprocess mode only counters that fell tell.
    """
    return before is None or restarted(before, reading) is not None


def _recovered(attempt: Attempt, seen: Aftermath) -> End | None:
    """Recovered is a new process that answers. One without a start time has to answer only."""
    works = seen.moved or seen.request is Request.ANSWERED
    if seen.reading is None or not works:
        return None
    said = "it works on requests" if seen.moved else f"the short request was {seen.request_why}"
    if new_process(attempt.before, seen.reading):
        return End(AttemptState.RECOVERED, f"a new process, and {said}")
    if seen.reading.start_time is None:
        return End(AttemptState.RECOVERED, said)
    return None


def _by_itself(attempt: Attempt, seen: Aftermath) -> End | None:
    """Whether a server that nobody restarted came back to life."""
    if seen.reading is None:
        return None
    if attempt.before is None:
        why = "it serves its page again, which it did not before"
        return End(AttemptState.RECOVERED, why, shadow_outcome=ShadowOutcome.RESTARTED)
    changed = restarted(attempt.before, seen.reading)
    if changed is not None:
        why = f"restarted by somebody else: {changed}"
        return End(AttemptState.RECOVERED, why, shadow_outcome=ShadowOutcome.RESTARTED)
    engines = attempt.before.engines if attempt.engine is None else (attempt.engine,)
    for name in engines:
        old, new = attempt.before.engines.get(name), seen.reading.engines.get(name)
        if old is not None and new is not None and progress(old, new, None).sign_of_life:
            why = f"engine {name} went on by itself"
            return End(AttemptState.RECOVERED, why, shadow_outcome=ShadowOutcome.CAME_BACK)
    return None


def _too_late(attempt: Attempt, seen: Aftermath) -> End:
    if attempt.mode is Mode.SHADOW:
        outcome = ShadowOutcome.NOT_SEEN if seen.reading is None else ShadowOutcome.STAYED_STUCK
        why = "nothing was restarted, and it did not come back"
        return End(AttemptState.STILL_STUCK, why, shadow_outcome=outcome)
    if seen.reading is None:
        return End(AttemptState.NOT_BACK, seen.why)
    said = f"the short request was {seen.request_why}"
    if new_process(attempt.before, seen.reading):
        return End(AttemptState.STILL_STUCK, f"a new process, but {said}")
    if seen.moved or seen.request is Request.ANSWERED:
        return End(AttemptState.RECOVERED, f"the same process as before, but {said}")
    if attempt.exit_status is None:
        return End(
            AttemptState.INTERRUPTED,
            "the end of the restart command was not seen, and it is the same process as before",
        )
    return End(AttemptState.STILL_STUCK, f"the same process as before, and {said}")
