"""The decision about an incident: named questions, asked in a fixed order.

Invariant, over every sequence of decisions: a backend is never restarted twice within its
cool-down, nor more than ``backend_restarts`` times within ``backend_window``; the fleet never more
than ``fleet_restarts`` times within ``fleet_window``, and never more than ``max_parallel`` backends
at once; and nothing is restarted that somebody holds, that was given up, whose alert Alertmanager
does not call active, or that was not seen standing still (or dead) directly, just now, for at least
``confirm_for``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleet.backend import Kind
from fleet.settings import Mode, Unreachable
from remediator.case import AlertState, Case
from remediator.decision import (
    RESOLVED,
    Answer,
    Decision,
    Escalate,
    Hold,
    Ignore,
    Reason,
    Restart,
    Verify,
)
from remediator.incident import AttemptState, IncidentState, Origin
from remediator.limits import QUESTIONS as LIMITS
from remediator.moment import clock
from remediator.notification import REMEDIATE
from remediator.verdict import QUESTIONS as PROOF_QUESTIONS
from remediator.verdict import proven

CLOCK_TOLERANCE = timedelta(seconds=60)
NOT_ACTIVE = {
    AlertState.SILENCED: Reason.SILENCED,
    AlertState.INHIBITED: Reason.INHIBITED,
    AlertState.UNKNOWN: Reason.ALERTMANAGER_UNREACHABLE,
}
# Alertmanager's API gives milliseconds, its notifications all digits of the same time.
SAME_START = timedelta(seconds=1)
PROOF_GOOD_FOR = timedelta(seconds=30)
# A restart that a person asked for, and that nobody could begin.
WANTED_FOR = timedelta(minutes=5)

Question = Callable[[Case, datetime], Decision | str]
"""What stands against a restart, or one sentence why nothing does."""


@dataclass(frozen=True)
class Examined:
    """A decision, and what each question that was asked came to, in their order."""

    decision: Decision
    answers: tuple[Answer, ...]


def decide(case: Case, now: datetime) -> Decision:
    """Decide about one incident. Total: every case has a decision, and each carries its reason."""
    return examine(case, now).decision


def examine(case: Case, now: datetime) -> Examined:
    """Decide, and tell what each question came to."""
    answers: list[Answer] = []
    for question in QUESTIONS[case.incident.origin]:
        said = question(case, now)
        answers.append(_answer(question.__name__, said))
        if not isinstance(said, str):
            return Examined(said, tuple(answers))
    if case.incident.origin is Origin.PERSON:
        why = f"asked for by {case.incident.asked_by}: {case.incident.asked_why}"
        return Examined(Restart(Reason.PLANNED, why), tuple(answers))
    proof = case.proof
    if proof is None or not timedelta() <= now - proof.at <= PROOF_GOOD_FOR:
        return Examined(Verify("nothing stands against a restart so far"), tuple(answers))
    for proof_question in PROOF_QUESTIONS:
        told = proof_question(case, proof, now)
        answers.append(_answer(proof_question.__name__, told))
        if not isinstance(told, str):
            return Examined(told, tuple(answers))
    return Examined(proven(proof), tuple(answers))


def _answer(question: str, said: Decision | str) -> Answer:
    if isinstance(said, str):
        return Answer(question, said, stands_against=False)
    return Answer(question, said.why, stands_against=not isinstance(said, Restart))


def asked_for(case: Case, now: datetime) -> Decision | str:
    """Does the alert ask for a restart? By its label; its name is never looked at."""
    del now
    if case.incident.remediate == REMEDIATE:
        return f"the alert's label remediate is {REMEDIATE!r}"
    return Ignore(
        Reason.NOT_ASKED_FOR,
        f"the alert's label remediate is {case.incident.remediate!r}, not {REMEDIATE!r}",
    )


def known_backend(case: Case, now: datetime) -> Decision | str:
    """Does the label ``backend`` name one of ours? No other label ever chooses a server."""
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
    return f"{case.backend.name} is at {case.backend.url}"


def firing(case: Case, now: datetime) -> Decision | str:
    """Does the alert fire, and by a clock that agrees with ours?"""
    incident = case.incident
    if incident.state is not IncidentState.OPEN:
        return RESOLVED
    if incident.ends_at is not None and incident.ends_at <= now:
        return Ignore(Reason.STALE, f"the alert ended at {clock(incident.ends_at)}")
    if incident.starts_at > now + CLOCK_TOLERANCE:
        return Hold(
            Reason.CLOCKS_DISAGREE,
            case.recheck(now),
            f"the alert begins at {clock(incident.starts_at)}, but here it is {clock(now)}",
        )
    return f"the alert has been firing since {clock(incident.starts_at)}"


def already_handled(case: Case, now: datetime) -> Decision | str:
    """Has an attempt for this very incident brought the server back, or a planned one ended?"""
    del now
    for attempt in case.counted:
        planned = case.incident.origin is Origin.PERSON and not attempt.under_way
        if attempt.incident_id == case.incident.id and (
            planned or attempt.state is AttemptState.RECOVERED
        ):
            return Ignore(
                Reason.ALREADY_HANDLED,
                f"attempt {attempt.id} ended at {clock(attempt.last_at)}: {attempt.why}",
            )
    return "no attempt for it has ended well"


def held(case: Case, now: datetime) -> Decision | str:
    """Does a person or a batch job hold the backend?"""
    in_force = [hold for hold in case.holds if hold.holds(case.incident.backend, now)]
    if not in_force:
        return "nobody holds it"
    last = max(in_force, key=lambda hold: hold.until)
    return Hold(
        Reason.HELD,
        min(last.until, case.recheck(now)),
        f"{last.held_by} holds {last.backend} until {clock(last.until)}: {last.why}",
    )


def alert_stands(case: Case, now: datetime) -> Decision | str:
    """Does Alertmanager, right now, call the alert active? Not being told is no yes."""
    standing = case.standing
    if standing.state is AlertState.GONE:
        return Ignore(Reason.GONE, standing.why)
    go_on = case.settings.alertmanager_unreachable is Unreachable.GO_ON
    if standing.state is AlertState.UNKNOWN and go_on:
        return f"{standing.why}; alertmanager_unreachable is go_on"
    if standing.state is not AlertState.ACTIVE:
        return Hold(NOT_ACTIVE[standing.state], case.recheck(now), standing.why)
    began = standing.starts_at
    if began is not None and began >= case.incident.starts_at + SAME_START:
        return Ignore(
            Reason.SUPERSEDED,
            f"the alert was resolved and fires again since {clock(began)}",
        )
    return standing.why


def restarted_since(case: Case, now: datetime) -> Decision | str:
    """Was the server restarted since the alert began, by us or by anybody?"""
    incident = case.incident
    ended = [
        attempt
        for attempt in case.of_backend
        if not attempt.under_way
        and attempt.state is not AttemptState.INTERRUPTED
        and (attempt.incident_id == incident.id or attempt.last_at >= incident.starts_at)
    ]
    if ended:
        last = max(ended, key=lambda attempt: attempt.last_at)
        said = f"attempt {last.id} ended at {clock(last.last_at)}: {last.why}"
        if last.state is AttemptState.RECOVERED:
            return Hold(Reason.RESTARTED_SINCE, case.recheck(now), said)
        return Escalate(Reason.NOT_RECOVERED, said)
    foreign = case.record.last_foreign
    started = max((time for time in (case.started, foreign) if time is not None), default=None)
    if started is not None and started > incident.starts_at:
        return Hold(
            Reason.RESTARTED_SINCE,
            case.recheck(now),
            f"the server was started at {clock(started)}, "
            f"after the alert began at {clock(incident.starts_at)}",
        )
    return "nobody is known to have restarted it since"


def gave_up(case: Case, now: datetime) -> Decision | str:
    """Did so many restarts in a row not help that a person has to act, and say ``reset``?"""
    del now
    record, most = case.record, case.settings.give_up_after
    if record.given_up_at is not None:
        return Escalate(
            Reason.GAVE_UP, f"given up at {clock(record.given_up_at)}: {record.given_up_why}"
        )
    if case.unhelpful >= most:
        return Escalate(
            Reason.GAVE_UP,
            f"{case.unhelpful} restarts in a row did not help; it is left to a person until "
            f"`vllm-remediator reset {case.incident.backend}`",
        )
    return f"{case.unhelpful} of its last restarts did not help, {most} would be too many"


def still_wanted(case: Case, now: datetime) -> Decision | str:
    """Is the person who asked for it still there? Nobody is restarted hours later."""
    asked = case.incident.opened_at
    if now - asked <= WANTED_FOR or any(a.incident_id == case.incident.id for a in case.attempts):
        return f"it was asked for at {clock(asked)}"
    return Ignore(Reason.STALE, f"it was asked for at {clock(asked)}, and could not be done then")


def in_act_mode(case: Case, now: datetime) -> Decision | str:
    """Is anything restarted at all?"""
    del now
    if case.settings.mode is Mode.ACT:
        return "the mode is act"
    return Ignore(Reason.SHADOW_MODE, "the mode is shadow, in which nothing is restarted")


def can_restart(case: Case, now: datetime) -> Decision | str:
    """Does fleet.yml say how this backend is restarted?"""
    del now
    if case.backend is not None and case.backend.restart is not None:
        return "fleet.yml says how"
    return Escalate(Reason.CANNOT_RESTART, f"{case.incident.backend} has no restart in fleet.yml")


QUESTIONS: dict[Origin, tuple[Question, ...]] = {
    Origin.ALERT: (
        asked_for,
        known_backend,
        firing,
        already_handled,
        held,
        alert_stands,
        restarted_since,
        gave_up,
        *LIMITS,
        can_restart,
    ),
    Origin.PERSON: (
        known_backend,
        still_wanted,
        in_act_mode,
        already_handled,
        held,
        gave_up,
        *LIMITS,
        can_restart,
    ),
}
