"""The decision about an incident: named questions, asked in a fixed order.

Invariant, over every sequence of decisions: a backend is never restarted twice within
``cool_down``, the fleet never more than ``fleet_restarts`` times within ``fleet_window``, and
nothing is restarted whose alert Alertmanager does not call active, or that was not seen standing
still (or dead) directly, just now, for at least ``confirm_for``.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fleet.backend import Kind
from fleet.settings import Mode
from remediator.case import AlertState, Case
from remediator.decision import RESOLVED, Decision, Escalate, Hold, Ignore, Reason, Verify
from remediator.incident import Attempt, AttemptState, IncidentState
from remediator.verdict import verdict

REMEDIATE = "restart"
CLOCK_TOLERANCE = timedelta(seconds=60)
NOT_ACTIVE = {
    AlertState.SILENCED: Reason.SILENCED,
    AlertState.INHIBITED: Reason.INHIBITED,
    AlertState.UNKNOWN: Reason.ALERTMANAGER_UNREACHABLE,
}
# Alertmanager's API gives milliseconds, its notifications all digits of the same time.
SAME_START = timedelta(seconds=1)
PROOF_GOOD_FOR = timedelta(seconds=30)
LAST_SECOND = datetime(9000, 1, 1, tzinfo=UTC).timestamp()


def decide(case: Case, now: datetime) -> Decision:
    """Decide about one incident. Total: every case has a decision, and each carries its reason."""
    for question in QUESTIONS:
        decision = question(case, now)
        if decision is not None:
            return decision
    proof = case.proof
    if proof is None or not timedelta() <= now - proof.at <= PROOF_GOOD_FOR:
        return Verify("nothing stands against a restart so far")
    return verdict(case, proof, now)


def asked_for(case: Case, now: datetime) -> Decision | None:
    """Whether the alert asks for a restart, by its label; its name is never looked at."""
    del now
    if case.incident.remediate == REMEDIATE:
        return None
    return Ignore(
        Reason.NOT_ASKED_FOR,
        f"the alert's label remediate is {case.incident.remediate!r}, not {REMEDIATE!r}",
    )


def known_backend(case: Case, now: datetime) -> Decision | None:
    """Whether its ``backend`` label names one of ours; no other label ever chooses a server."""
    del now
    if case.backend is None:
        return Ignore(
            Reason.UNKNOWN_BACKEND,
            f"the alert's label backend is {case.incident.backend!r}, "
            "which is not a backend in fleet.yml",
        )
    if case.backend.kind is Kind.PROXY:
        return Escalate(
            Reason.PROXY, f"{case.backend.name} is a proxy, whose page is not one server's"
        )
    return None


def firing(case: Case, now: datetime) -> Decision | None:
    """Whether the alert fires, and by a clock that agrees with ours."""
    incident = case.incident
    if incident.state is not IncidentState.OPEN:
        return RESOLVED
    if incident.ends_at is not None and incident.ends_at <= now:
        return Ignore(Reason.STALE, f"the alert ended at {_clock(incident.ends_at)}")
    if incident.starts_at > now + CLOCK_TOLERANCE:
        return Hold(
            Reason.CLOCKS_DISAGREE,
            case.recheck(now),
            f"the alert begins at {_clock(incident.starts_at)}, but here it is {_clock(now)}",
        )
    return None


def already_handled(case: Case, now: datetime) -> Decision | None:
    """Whether an attempt for this very incident brought the server back."""
    del now
    for attempt in _counted(case):
        if attempt.incident_id == case.incident.id and attempt.state is AttemptState.RECOVERED:
            return Ignore(
                Reason.ALREADY_HANDLED,
                f"attempt {attempt.id} ended at {_clock(attempt.last_at)}: {attempt.why}",
            )
    return None


def alert_stands(case: Case, now: datetime) -> Decision | None:
    """Whether Alertmanager, right now, calls the alert active. Not being told is no yes."""
    standing = case.standing
    if standing.state is AlertState.GONE:
        return Ignore(Reason.GONE, standing.why)
    if standing.state is not AlertState.ACTIVE:
        return Hold(NOT_ACTIVE[standing.state], case.recheck(now), standing.why)
    began = standing.starts_at
    if began is not None and began >= case.incident.starts_at + SAME_START:
        return Ignore(
            Reason.SUPERSEDED,
            f"the alert was resolved and fires again since {_clock(began)}",
        )
    return None


def restarted_since(case: Case, now: datetime) -> Decision | None:
    """Whether the server was restarted since the alert began, by us or by anybody."""
    incident = case.incident
    ended = [
        attempt
        for attempt in _of_backend(case)
        if not attempt.under_way
        and attempt.state is not AttemptState.INTERRUPTED
        and (attempt.incident_id == incident.id or attempt.last_at >= incident.starts_at)
    ]
    if ended:
        last = max(ended, key=lambda attempt: attempt.last_at)
        said = f"attempt {last.id} ended at {_clock(last.last_at)}: {last.why}"
        if last.state is AttemptState.RECOVERED:
            return Hold(Reason.RESTARTED_SINCE, case.recheck(now), said)
        return Escalate(Reason.NOT_RECOVERED, said)
    started = _started(case)
    if started is not None and started > incident.starts_at:
        return Hold(
            Reason.RESTARTED_SINCE,
            case.recheck(now),
            f"the server was started at {_clock(started)}, "
            f"after the alert began at {_clock(incident.starts_at)}",
        )
    return None


def under_way(case: Case, now: datetime) -> Decision | None:
    """Whether an attempt on this backend has not ended."""
    for attempt in case.attempts:
        if attempt.backend == case.incident.backend and attempt.under_way:
            return Hold(
                Reason.UNDER_WAY,
                case.recheck(now),
                f"attempt {attempt.id} is {attempt.state} since {_clock(attempt.last_at)}",
            )
    return None


def cooling_down(case: Case, now: datetime) -> Decision | None:
    """Whether the server was restarted, by us or by anybody, less than ``cool_down`` ago."""
    times = [attempt.last_at for attempt in _of_backend(case)]
    started = _started(case)
    if started is not None:
        times.append(started)
    until = max(times, default=now - _cool_down(case)) + _cool_down(case)
    if until > now:
        return Hold(
            Reason.COOLING_DOWN,
            until,
            f"last restarted at {_clock(until - _cool_down(case))}, "
            f"cool_down is {case.settings.cool_down:g} s",
        )
    return None


def fleet_limit(case: Case, now: datetime) -> Decision | None:
    """Whether the whole fleet has had its ``fleet_restarts`` within ``fleet_window``."""
    most, window = case.settings.fleet_restarts, timedelta(seconds=case.settings.fleet_window)
    recent = sorted(a.planned_at for a in _counted(case) if a.planned_at > now - window)
    if len(recent) < most:
        return None
    return Hold(
        Reason.FLEET_LIMIT,
        recent[-most] + window,
        f"{len(recent)} restarts in the last {case.settings.fleet_window:g} s, {most} are allowed",
    )


def can_restart(case: Case, now: datetime) -> Decision | None:
    """Whether fleet.yml says how this backend is restarted."""
    del now
    if case.backend is not None and case.backend.restart is not None:
        return None
    return Escalate(
        Reason.NO_RESTART_COMMAND, f"{case.incident.backend} has no restart.command in fleet.yml"
    )


QUESTIONS: tuple[Callable[[Case, datetime], Decision | None], ...] = (
    asked_for,
    known_backend,
    firing,
    already_handled,
    alert_stands,
    restarted_since,
    under_way,
    cooling_down,
    fleet_limit,
    can_restart,
)


def _counted(case: Case) -> list[Attempt]:
    """The attempts that count: one made in shadow restarted nothing, but in shadow it did."""
    shadow = case.settings.mode is Mode.SHADOW
    return [attempt for attempt in case.attempts if shadow or attempt.mode is Mode.ACT]


def _of_backend(case: Case) -> list[Attempt]:
    return [attempt for attempt in _counted(case) if attempt.backend == case.incident.backend]


def _started(case: Case) -> datetime | None:
    """When the process that answers was started, once it has been read."""
    started = case.proof.start_time if case.proof else None
    if started is None or not 0 <= started < LAST_SECOND:
        return None
    return datetime.fromtimestamp(started, UTC)


def _cool_down(case: Case) -> timedelta:
    return timedelta(seconds=case.settings.cool_down)


def _clock(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
