"""What limits restarts however well proven they are: how soon, how often, how many at once."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from fleet.settings import Mode
from remediator.case import Case
from remediator.decision import Decision, Hold, Reason
from remediator.incident import Attempt
from remediator.moment import clock


def under_way(case: Case, now: datetime) -> Decision | str:
    """Is an attempt on this backend under way?"""
    for attempt in case.attempts:
        if attempt.backend == case.incident.backend and attempt.under_way:
            return Hold(
                Reason.UNDER_WAY,
                case.recheck(now),
                f"attempt {attempt.id} is {attempt.state} since {clock(attempt.last_at)}",
            )
    return "no attempt on it is under way"


def cooling_down(case: Case, now: datetime) -> Decision | str:
    """Was it restarted, by us or by anybody, less than its cool-down ago?

    The cool-down grows with each restart in a row that did not help.
    """
    times = [attempt.last_at for attempt in case.of_backend if attempt.acted]
    times += [time for time in (case.started, case.record.last_foreign) if time is not None]
    if not times:
        return "it is not known to have been restarted"
    last = max(times)
    seconds = f"its cool-down is {case.cool_down.total_seconds():g} s"
    if last + case.cool_down > now:
        return Hold(
            Reason.COOLING_DOWN,
            last + case.cool_down,
            f"last restarted at {clock(last)}, {seconds}",
        )
    return f"last restarted at {clock(last)}, {seconds}"


def backend_limit(case: Case, now: datetime) -> Decision | str:
    """Has it had its ``backend_restarts`` within ``backend_window``?"""
    most, window = case.settings.backend_restarts, case.settings.backend_window
    return _window(case.of_backend, most, window, Reason.BACKEND_LIMIT, now)


def fleet_limit(case: Case, now: datetime) -> Decision | str:
    """Has the whole fleet had its ``fleet_restarts`` within ``fleet_window``?"""
    most, window = case.settings.fleet_restarts, case.settings.fleet_window
    return _window(case.counted, most, window, Reason.FLEET_LIMIT, now)


def max_parallel(case: Case, now: datetime) -> Decision | str:
    """Are as many backends being restarted as may be at once?

    One in shadow is watched for hours; it counts for as long as a real one would have taken.
    """
    others = {
        attempt.backend
        for attempt in case.counted
        if attempt.under_way and attempt.backend != case.incident.backend
    }
    if case.settings.mode is Mode.SHADOW:
        load = timedelta(seconds=case.backend.load_time if case.backend else 0.0)
        others = {a.backend for a in case.counted if a.under_way and now < a.planned_at + load}
    most = case.settings.max_parallel
    said = f"{len(others)} other backends are being restarted, {most} may be at once"
    if len(others) < most:
        return said
    return Hold(Reason.MAX_PARALLEL, case.recheck(now), f"{said}: {', '.join(sorted(others))}")


def too_many_unhealthy(case: Case, now: datetime) -> Decision | str:
    """Is so much of the fleet in trouble at once that the cause is elsewhere?"""
    ours = case.fleet & (case.in_trouble | case.standing.in_trouble | {case.incident.backend})
    said = f"{len(ours)} of {len(case.fleet)} backends are in trouble"
    settings = case.settings
    few = len(ours) < settings.storm_least or len(ours) < settings.storm_share * len(case.fleet)
    if few:
        return said
    return Hold(
        Reason.TOO_MANY_UNHEALTHY,
        case.recheck(now),
        f"{said} at once ({', '.join(sorted(ours))}): the cause is elsewhere",
    )


QUESTIONS: tuple[Callable[[Case, datetime], Decision | str], ...] = (
    under_way,
    cooling_down,
    backend_limit,
    fleet_limit,
    max_parallel,
    too_many_unhealthy,
)


def _window(
    attempts: Iterable[Attempt], most: int, seconds: float, reason: Reason, now: datetime
) -> Decision | str:
    times = recent(attempts, seconds, now)
    said = f"{len(times)} restarts in the last {seconds:g} s, {most} are allowed"
    if len(times) < most:
        return said
    return Hold(reason, times[-most] + timedelta(seconds=seconds), said)


def recent(attempts: Iterable[Attempt], seconds: float, now: datetime) -> list[datetime]:
    """When those were planned that use up a limit over the last ``seconds``, the oldest first."""
    began = now - timedelta(seconds=seconds)
    return sorted(a.planned_at for a in attempts if _may_have_acted(a) and a.planned_at > began)


def _may_have_acted(attempt: Attempt) -> bool:
    return attempt.acted or attempt.under_way
