"""Incidents, attempts and decisions as the API and the page show them.

What a restart command printed is not among it: it may hold what only the database should know.
"""

from datetime import datetime
from typing import TypedDict

from remediator.decision import Answer
from remediator.incident import Attempt, Decided, Incident
from remediator.moment import clock
from remediator.questions import asks
from remediator.record import HoldBack

Row = dict[str, str | int | float | None]


def incident_row(incident: Incident) -> Row:
    """An incident; times in UTC, None where there is none."""
    return {
        "id": incident.id,
        "state": incident.state,
        "backend": incident.backend,
        "engine": incident.engine,
        "origin": incident.origin,
        "asked_by": incident.asked_by,
        "asked_why": incident.asked_why,
        "alertname": incident.alertname,
        "symptom": incident.symptom,
        "fingerprint": incident.fingerprint,
        "starts_at": _time(incident.starts_at),
        "opened_at": _time(incident.opened_at),
        "heard_at": _time(incident.heard_at),
        "next_look_at": _time(incident.next_look_at),
        "closed_at": _time(incident.closed_at),
        "action": incident.action,
        "reason": incident.reason,
        "until": _time(incident.until),
        "why": incident.why,
    }


def attempt_row(attempt: Attempt) -> Row:
    """An attempt; process start times in Unix seconds."""
    return {
        "id": attempt.id,
        "incident": attempt.incident_id,
        "backend": attempt.backend,
        "engine": attempt.engine,
        "mode": attempt.mode,
        "state": attempt.state,
        "planned_at": _time(attempt.planned_at),
        "acting_at": _time(attempt.acting_at),
        "starting_at": _time(attempt.starting_at),
        "ended_at": _time(attempt.ended_at),
        "start_time_before": attempt.before.start_time if attempt.before else None,
        "start_time_after": attempt.start_time_after,
        "exit_status": attempt.exit_status,
        "evidence": attempt.evidence,
        "drained": attempt.drained,
        "shadow_outcome": attempt.shadow_outcome,
        "why": attempt.why,
    }


def decision_row(decided: Decided) -> Row:
    """A line of the journal."""
    return {
        "id": decided.id,
        "incident": decided.incident_id,
        "backend": decided.backend,
        "at": _time(decided.at),
        "action": decided.action,
        "reason": decided.reason,
        "until": _time(decided.until),
        "why": decided.why,
    }


def hold_row(hold: HoldBack) -> Row:
    """A hold; ``backend`` is ``*`` for every backend."""
    return {
        "id": hold.id,
        "backend": hold.backend,
        "since": clock(hold.since),
        "until": clock(hold.until),
        "by": hold.held_by,
        "why": hold.why,
    }


class QuestionRow(TypedDict):
    """A question of a decision and its answer."""

    question: str
    asks: str
    said: str
    stands_against: bool


def question_row(answer: Answer) -> QuestionRow:
    """A question that was asked."""
    return {
        "question": answer.question,
        "asks": asks(answer.question),
        "said": answer.said,
        "stands_against": answer.stands_against,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else clock(time)
