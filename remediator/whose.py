"""Who started a process that was not there before: we, or somebody else."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from remediator.incident import Attempt
from remediator.record import Start, Whose

# The server's clock is not ours, and a process is a moment older than its command's end.
CLOCK_TOLERANCE = timedelta(seconds=60)


def start(
    backend: str,
    started_at: datetime,
    last: Start | None,
    attempts: Iterable[Attempt],
    now: datetime,
) -> Start | None:
    """The process that began at ``started_at``, and whose it is; None where it is the last one.

    It is ours if it is the first to begin after an attempt of ours acted, while that attempt was
    under way. ``attempts`` are the backend's last ones.
    """
    if last is not None and abs(started_at - last.started_at) < timedelta(seconds=1):
        return None
    if last is None:
        return Start(backend, started_at, now, Whose.FIRST)
    for attempt in attempts:
        if _made(attempt, started_at, last, now):
            return Start(backend, started_at, now, Whose.OURS, attempt.id)
    return Start(backend, started_at, now, Whose.FOREIGN)


def _made(attempt: Attempt, started_at: datetime, last: Start, now: datetime) -> bool:
    if attempt.acting_at is None or last.attempt_id == attempt.id:
        return False
    until = attempt.ended_at or now
    return attempt.acting_at - CLOCK_TOLERANCE <= started_at <= until + CLOCK_TOLERANCE
