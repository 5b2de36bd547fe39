"""How long a backend is left alone after a restart, by how much good the last ones did."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from fleet.settings import RemediatorSettings
from remediator.incident import Attempt, AttemptState

# A load that takes longer than ever before is not yet a failure.
LOAD_MARGIN = 2.0
SHORTEST_PATIENCE = 60.0
LOADS_KEPT = 5


def unhelpful(
    attempts: Iterable[Attempt], trouble_at: datetime, settings: RemediatorSettings
) -> int:
    """How many restarts in a row, the last before ``trouble_at`` first, did not help.

    One helped if the server came back and was in no trouble for ``helped_after``. ``attempts`` are
    one backend's that ended; what was interrupted before the act counts for nothing.
    """
    helped_after = timedelta(seconds=settings.helped_after)
    count = 0
    for attempt in sorted(attempts, key=lambda attempt: attempt.planned_at, reverse=True):
        recovered = attempt.state is AttemptState.RECOVERED
        if recovered and trouble_at - attempt.last_at >= helped_after:
            break
        count += 1
        trouble_at = attempt.planned_at
    return count


def cool_down(
    unhelpful_restarts: int, longest_load: float | None, settings: RemediatorSettings
) -> timedelta:
    """The shortest time between two restarts of a backend.

    It doubles with each further restart in a row that did not help, up to ``longest_cool_down``,
    and is never shorter than the backend takes to load.
    """
    # 2 ** 32 times the shortest duration is longer than the longest one.
    doublings = min(max(0, unhelpful_restarts - 1), 32)
    grown = min(settings.cool_down * 2.0**doublings, settings.longest_cool_down)
    return timedelta(seconds=max(grown, longest_load or 0.0))


def patience(load_time: float, longest_load: float | None) -> float:
    """Seconds that a restarted server may take until it answers.

    ``load_time`` of fleet.yml, or less once it was seen how long its loads take.
    """
    if longest_load is None:
        return load_time
    return min(load_time, max(SHORTEST_PATIENCE, LOAD_MARGIN * longest_load))
