"""Why a backend was or was not restarted: its last decision, with every question and its answer."""

from collections.abc import Sequence
from typing import TypedDict

from remediator.decision import Answer
from remediator.incident import Decided, Incident
from remediator.questions import not_asked
from remediator.rows import QuestionRow, Row, decision_row, incident_row, question_row


class Why(TypedDict):
    """The last decision about a backend, and the questions of ``examined``.

    That is the last decision for which questions were asked: the last one of all, unless that was
    only the end of the alert. ``incident`` is the one that it was about.
    """

    backend: str
    decision: Row | None
    examined: Row | None
    incident: Row | None
    questions: list[QuestionRow]
    not_asked: list[str]


def examined(journal: Sequence[Decided]) -> Decided | None:
    """The last decision for which questions were asked; ``journal`` has the newest first."""
    return next((line for line in journal if line.answers), None)


def reasoning(backend: str, incident: Incident | None, journal: Sequence[Decided]) -> Why:
    """Why, by the backend's newest decisions, newest first; ``incident`` is of ``examined``."""
    line = examined(journal)
    # The incident has what the same decision came to when it was made last, with its numbers.
    answers = (incident.answers if incident else ()) or (line.answers if line else ())
    return {
        "backend": backend,
        "decision": decision_row(journal[0]) if journal else None,
        "examined": None if line is None else decision_row(line),
        "incident": None if incident is None else incident_row(incident),
        "questions": [question_row(answer) for answer in answers],
        "not_asked": left(incident, answers),
    }


def left(incident: Incident | None, answers: Sequence[Answer]) -> list[str]:
    """The questions that were not asked any more, because one before them stood against."""
    if incident is None or not answers or not answers[-1].stands_against:
        return []
    return list(not_asked(incident.origin, len(answers)))
