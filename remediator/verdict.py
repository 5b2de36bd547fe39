"""What a proof leads to, once nothing else stands against a restart."""

from collections.abc import Callable
from datetime import datetime

from remediator.case import Case
from remediator.decision import Decision, Escalate, Hold, Ignore, Reason, Restart
from remediator.incident import AttemptState
from remediator.notification import Symptom
from remediator.proof import Proof, Request, Sight


def proven(proof: Proof) -> Restart:
    """What is left when no question stands against it."""
    return Restart(Reason.STUCK, f"watched for {proof.seconds:.0f} s: {_seen(proof)}")


def at_rest(case: Case, proof: Proof, now: datetime) -> Decision | str:
    """Has somebody put the server to sleep or paused it? It then stands still by right."""
    if proof.saw.sight is Sight.ASLEEP:
        return _hold(case, now, Reason.ASLEEP, proof.saw.why)
    if proof.paused:
        return _hold(
            case, now, Reason.PAUSED, "the server is paused, or may be: weights are updated there"
        )
    return "nobody has put it to sleep or paused it"


def alive(case: Case, proof: Proof, now: datetime) -> Decision | str:
    """Did the engine write anything, answer, or get replaced under our eyes?"""
    if proof.request is Request.ANSWERED:
        return Ignore(Reason.PROGRESSING, f"the short request was {proof.request_why}")
    if proof.saw.sight is Sight.MOVED:
        return _hold(case, now, Reason.PROGRESSING, proof.saw.why)
    if proof.saw.sight is Sight.RESTARTED:
        return _hold(case, now, Reason.RESTARTED_SINCE, proof.saw.why)
    return proof.saw.why


def seen_long_enough(case: Case, proof: Proof, now: datetime) -> Decision | str:
    """Was the server watched for all of ``confirm_for``?"""
    if proof.seconds >= case.settings.confirm_for:
        return f"it was watched for {proof.seconds:.0f} s"
    if proof.saw.sight is Sight.UNREADABLE:
        return _cannot_verify(case, now, proof.saw.why)
    return _cannot_verify(
        case,
        now,
        f"watched for only {proof.seconds:.1f} s, "
        f"confirm_for is {case.settings.confirm_for:g} s: {proof.saw.why}",
    )


def interrupted_before(case: Case, proof: Proof, now: datetime) -> Decision | str:
    """Did an earlier attempt on this incident break off that may have restarted the server?

    Only the same start time before it and now shows that it did not.
    """
    del now
    for attempt in case.attempts:
        if (
            attempt.incident_id != case.incident.id
            or attempt.state is not AttemptState.INTERRUPTED
            or attempt.acting_at is None
        ):
            continue
        before = attempt.before.start_time if attempt.before else None
        if before is None or before != proof.start_time:
            return Escalate(
                Reason.INTERRUPTED,
                f"attempt {attempt.id} was interrupted, and nothing shows whether it restarted "
                "the server",
            )
    return "no attempt for it was interrupted"


def dead(case: Case, proof: Proof, now: datetime) -> Decision | str:
    """Is the engine dead: does /health say 503, or does nobody listen?

    Where the alert only says stuck, a 503 counts if the server itself still shows its page (a
    proxy answers 503 too), and if nobody listens somebody is probably restarting it.
    """
    says_dead = case.incident.symptom is Symptom.DEAD
    if proof.dead and (says_dead or proof.saw.sight is Sight.STILL):
        return Restart(
            Reason.DEAD, f"/health said 503 for {proof.seconds:.0f} s, and {proof.saw.why}"
        )
    if proof.saw.sight is not Sight.REFUSED:
        return "/health does not say that it is dead"
    if says_dead:
        return Restart(Reason.DEAD, f"for {proof.seconds:.0f} s {proof.saw.why}")
    return _cannot_verify(
        case, now, f"{proof.saw.why}; somebody may be restarting {case.incident.backend}"
    )


def readable(case: Case, proof: Proof, now: datetime) -> Decision | str:
    """Was the engine seen at all, and its silence heard? An HTTP error is none."""
    if proof.saw.sight is Sight.UNREADABLE:
        return _cannot_verify(case, now, proof.saw.why)
    if proof.request is not Request.UNANSWERED:
        return _cannot_verify(
            case, now, f"{proof.saw.why}, but no short request tells: {proof.request_why}"
        )
    return f"the short request was {proof.request_why}"


def as_alerted(case: Case, proof: Proof, now: datetime) -> Decision | str:
    """Is what was seen what the alert says?

    An alert that says dead has not waited for silence as one that says stuck has, and one step
    of a living engine can take longer than our look.
    """
    if case.incident.symptom is Symptom.DEAD:
        return _cannot_verify(
            case, now, f"the alert says dead, but /health does not; {_seen(proof)}"
        )
    return "it is what the alert says"


QUESTIONS: tuple[Callable[[Case, Proof, datetime], Decision | str], ...] = (
    at_rest,
    alive,
    seen_long_enough,
    interrupted_before,
    dead,
    readable,
    as_alerted,
)


def _seen(proof: Proof) -> str:
    return f"{proof.saw.why}, and the short request was {proof.request_why}"


def _cannot_verify(case: Case, now: datetime, why: str) -> Hold:
    return _hold(case, now, Reason.CANNOT_VERIFY, why)


def _hold(case: Case, now: datetime, reason: Reason, why: str) -> Hold:
    return Hold(reason, case.recheck(now), why)
