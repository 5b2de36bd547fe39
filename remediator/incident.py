"""What is remembered: incidents, and the attempts to remedy them. All times are in UTC."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fleet.reading import Reading
from fleet.settings import Mode
from remediator.decision import Action, Answer, Decision, Reason
from remediator.notification import Symptom


class Origin(StrEnum):
    """Who asks for a restart: an alert, or a person who plans one."""

    ALERT = "alert"
    PERSON = "person"


class IncidentState(StrEnum):
    """Whether an incident is still decided about."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True)
class Incident:
    """One episode of one alert, named by ``fingerprint`` and ``starts_at``, and what became of it.

    A restart that a person asked for is one as well: ``asked_by`` and ``asked_why`` are theirs.
    ``heard_at``: when a notification last spoke of it. ``next_look_at``: when it is due to be
    decided about. ``action``, ``reason``, ``until``, ``why`` and ``answers`` are those of the last
    decision.
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
    origin: Origin = Origin.ALERT
    asked_by: str = ""
    asked_why: str = ""
    answers: tuple[Answer, ...] = ()

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


class ShadowOutcome(StrEnum):
    """What became of a server that would have been restarted, had the mode been ``act``.

    CAME_BACK: it went on by itself, so the restart would have been for nothing. RESTARTED:
    somebody else did it. STAYED_STUCK: neither, for as long as it was watched. NOT_SEEN: nobody can
    tell.
    """

    CAME_BACK = "came_back"
    RESTARTED = "restarted"
    STAYED_STUCK = "stayed_stuck"
    NOT_SEEN = "not_seen"


UNDER_WAY = (AttemptState.PLANNED, AttemptState.ACTING, AttemptState.STARTING)
ENDS = tuple(state for state in AttemptState if state not in UNDER_WAY)


@dataclass(frozen=True)
class Attempt:
    """One attempt to remedy an incident; in shadow mode, the record of one that was not made.

    ``before``: the last reading before it, None where the server could not be read.
    ``start_time_after`` is in Unix seconds. ``output`` is the tail of what the restart command
    wrote. ``exit_status`` is None where the command was not run, or its end not seen. ``drained``
    is what the gateways said, ``shadow_outcome`` what became of a restart that was not made.
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
    drained: str = ""
    shadow_outcome: ShadowOutcome | None = None
    why: str = ""

    @property
    def under_way(self) -> bool:
        """Whether it has not ended."""
        return self.state in UNDER_WAY

    @property
    def acted(self) -> bool:
        """Whether anything was done to the server, or would have been in shadow mode."""
        return self.mode is Mode.SHADOW or self.acting_at is not None

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
    answers: tuple[Answer, ...] = ()
