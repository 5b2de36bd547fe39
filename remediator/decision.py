"""What can be decided about an incident, and the closed set of reasons for it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar


class Action(StrEnum):
    """What a decision says to do; doing nothing has three names, by who has to act next."""

    RESTART = "restart"
    VERIFY = "verify"
    HOLD = "hold"
    IGNORE = "ignore"
    ESCALATE = "escalate"


class Reason(StrEnum):
    """Why; the values are label values, the journal's words and headings of the docs."""

    STUCK = "stuck"
    DEAD = "dead"
    PLANNED = "planned"
    NOTHING_AGAINST_IT = "nothing_against_it"
    NOT_ASKED_FOR = "not_asked_for"
    UNKNOWN_BACKEND = "unknown_backend"
    PROXY = "proxy"
    RESOLVED = "resolved"
    STALE = "stale"
    CLOCKS_DISAGREE = "clocks_disagree"
    ALREADY_HANDLED = "already_handled"
    HELD = "held"
    GONE = "gone"
    SUPERSEDED = "superseded"
    SILENCED = "silenced"
    INHIBITED = "inhibited"
    ALERTMANAGER_UNREACHABLE = "alertmanager_unreachable"
    RESTARTED_SINCE = "restarted_since"
    NOT_RECOVERED = "not_recovered"
    GAVE_UP = "gave_up"
    UNDER_WAY = "under_way"
    COOLING_DOWN = "cooling_down"
    BACKEND_LIMIT = "backend_limit"
    FLEET_LIMIT = "fleet_limit"
    MAX_PARALLEL = "max_parallel"
    TOO_MANY_UNHEALTHY = "too_many_unhealthy"
    CANNOT_RESTART = "cannot_restart"
    SHADOW_MODE = "shadow_mode"
    INTERRUPTED = "interrupted"
    ASLEEP = "asleep"
    PAUSED = "paused"
    PROGRESSING = "progressing"
    CANNOT_VERIFY = "cannot_verify"


@dataclass(frozen=True)
class Restart:
    """Restart the backend: it is proven stuck or dead."""

    reason: Reason
    why: str
    until: ClassVar[None] = None
    action: ClassVar[Action] = Action.RESTART


@dataclass(frozen=True)
class Verify:
    """Nothing stands against a restart so far: read the backend directly and decide again."""

    why: str
    reason: ClassVar[Reason] = Reason.NOTHING_AGAINST_IT
    until: ClassVar[None] = None
    action: ClassVar[Action] = Action.VERIFY


@dataclass(frozen=True)
class Hold:
    """Not now: decide again at ``until``, or earlier."""

    reason: Reason
    until: datetime
    why: str
    action: ClassVar[Action] = Action.HOLD


@dataclass(frozen=True)
class Ignore:
    """Nothing to do about this incident: it is closed."""

    reason: Reason
    why: str
    until: ClassVar[None] = None
    action: ClassVar[Action] = Action.IGNORE


@dataclass(frozen=True)
class Escalate:
    """A person has to act; the incident stays open for as long as its alert fires."""

    reason: Reason
    why: str
    until: ClassVar[None] = None
    action: ClassVar[Action] = Action.ESCALATE


Decision = Restart | Verify | Hold | Ignore | Escalate


@dataclass(frozen=True)
class Answer:
    """What one question of a decision came to; ``stands_against`` a restart, or lets it pass."""

    question: str
    said: str
    stands_against: bool


RESOLVED = Ignore(Reason.RESOLVED, "the alert is resolved")

RECORDED = (
    (Action.RESTART, Reason.STUCK),
    (Action.RESTART, Reason.DEAD),
    (Action.RESTART, Reason.PLANNED),
    (Action.IGNORE, Reason.NOT_ASKED_FOR),
    (Action.IGNORE, Reason.UNKNOWN_BACKEND),
    (Action.ESCALATE, Reason.PROXY),
    (Action.IGNORE, Reason.RESOLVED),
    (Action.IGNORE, Reason.STALE),
    (Action.HOLD, Reason.CLOCKS_DISAGREE),
    (Action.IGNORE, Reason.ALREADY_HANDLED),
    (Action.HOLD, Reason.HELD),
    (Action.IGNORE, Reason.GONE),
    (Action.IGNORE, Reason.SUPERSEDED),
    (Action.HOLD, Reason.SILENCED),
    (Action.HOLD, Reason.INHIBITED),
    (Action.HOLD, Reason.ALERTMANAGER_UNREACHABLE),
    (Action.HOLD, Reason.RESTARTED_SINCE),
    (Action.ESCALATE, Reason.NOT_RECOVERED),
    (Action.ESCALATE, Reason.GAVE_UP),
    (Action.HOLD, Reason.UNDER_WAY),
    (Action.HOLD, Reason.COOLING_DOWN),
    (Action.HOLD, Reason.BACKEND_LIMIT),
    (Action.HOLD, Reason.FLEET_LIMIT),
    (Action.HOLD, Reason.MAX_PARALLEL),
    (Action.HOLD, Reason.TOO_MANY_UNHEALTHY),
    (Action.ESCALATE, Reason.CANNOT_RESTART),
    (Action.IGNORE, Reason.SHADOW_MODE),
    (Action.ESCALATE, Reason.INTERRUPTED),
    (Action.HOLD, Reason.ASLEEP),
    (Action.HOLD, Reason.PAUSED),
    (Action.HOLD, Reason.PROGRESSING),
    (Action.IGNORE, Reason.PROGRESSING),
    (Action.HOLD, Reason.CANNOT_VERIFY),
)
"""Every pair that is ever recorded: ``policy.decide`` returns no other, but for Verify."""
