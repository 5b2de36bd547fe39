"""What is remembered: incidents, and the attempts to remedy them. All times are in UTC."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fleet.reading import Reading
from fleet.settings import Mode
from remediator.decision import Action, Decision, Reason
from remediator.notification import Symptom


class IncidentState(StrEnum):
    """Whether an incident is still decided about."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True)
class Incident:
    """One episode of one alert, named by ``fingerprint`` and ``starts_at``, and what became of it.

    ``heard_at``: when a notification last spoke of it. ``next_look_at``: when it is due to be
    decided about. ``action``, ``reason``, ``until`` and ``why`` are the last decision's.
    """

    id: int
    fingerprint: str
    starts_at: datetime
    ends_at: datetime | None
    alertname: str
    backend: str
    engine: str | None
    remediate: str
    symptom: Symptom
    state: IncidentState
    opened_at: datetime
    heard_at: datetime
    next_look_at: datetime
    closed_at: datetime | None = None
    action: Action | None = None
    reason: Reason | None = None
    until: datetime | None = None
    why: str = ""

    def was_told(self, decision: Decision) -> bool:
        """Whether a decision says the same as the last one, whatever its numbers."""
        return (self.action, self.reason) == (decision.action, decision.reason)


class AttemptState(StrEnum):
    """How far an attempt has come, or how it ended.

    PLANNED is written before anything is done, ACTING before the restart command is begun,
    STARTING once it has ended well (or nobody knows, since we were killed meanwhile): the server
    has its load time to come back. The others are ends.
    """

    PLANNED = "planned"
    ACTING = "acting"
    STARTING = "starting"
    RECOVERED = "recovered"
    STILL_STUCK = "still_stuck"
    NOT_BACK = "not_back"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


UNDER_WAY = (AttemptState.PLANNED, AttemptState.ACTING, AttemptState.STARTING)
ENDS = tuple(state for state in AttemptState if state not in UNDER_WAY)


@dataclass(frozen=True)
class Attempt:
    """One attempt to remedy an incident; in shadow mode, the record of one that was not made.

    ``before``: the last reading before it, None where the server could not be read.
    ``start_time_after`` is in Unix seconds. ``output`` is the tail of what the restart command
    wrote. ``exit_status`` is None where the command was not run, or its end not seen.
    """

    id: int
    incident_id: int
    backend: str
    engine: str | None
    mode: Mode
    state: AttemptState
    planned_at: datetime
    acting_at: datetime | None = None
    starting_at: datetime | None = None
    ended_at: datetime | None = None
    before: Reading | None = None
    start_time_after: float | None = None
    exit_status: int | None = None
    output: str = ""
    evidence: str | None = None
    why: str = ""

    @property
    def under_way(self) -> bool:
        """Whether it has not ended."""
        return self.state in UNDER_WAY

    @property
    def last_at(self) -> datetime:
        """When it was last known to do anything to the server: cool-down counts from here."""
        return self.ended_at or self.starting_at or self.acting_at or self.planned_at


@dataclass(frozen=True)
class Decided:
    """A line of the journal: a decision that differed from the one before it."""

    id: int
    incident_id: int
    backend: str
    at: datetime
    action: Action
    reason: Reason
    until: datetime | None
    why: str
