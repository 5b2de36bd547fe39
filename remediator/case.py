"""Everything a decision looks at, in one frozen value."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fleet.backend import Backend
from fleet.settings import RemediatorSettings
from remediator.incident import Attempt, Incident
from remediator.proof import Proof


class AlertState(StrEnum):
    """What Alertmanager says of an alert right now; UNKNOWN is never taken for one of the others.

    UNKNOWN: it could not be asked, or what it said could not be understood.
    """

    ACTIVE = "active"
    SILENCED = "silenced"
    INHIBITED = "inhibited"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Standing:
    """An alert's state in Alertmanager, one sentence why, and since when it has been firing there.

    ``starts_at`` is None where Alertmanager does not have the alert or was not understood.
    """

    state: AlertState
    why: str
    starts_at: datetime | None = None


NOT_ASKED = Standing(AlertState.UNKNOWN, "Alertmanager was not asked")


@dataclass(frozen=True)
class Case:
    """One incident and all that bears on it.

    ``backend`` is None where fleet.yml has none of that name. ``attempts`` holds every attempt,
    of any backend, that is under way, belongs to the incident, or was made since the alert began
    or within the cool-down and the fleet's window. ``proof`` is None until the backend was read.
    """

    incident: Incident
    backend: Backend | None
    attempts: tuple[Attempt, ...]
    standing: Standing
    settings: RemediatorSettings
    proof: Proof | None = None

    def recheck(self, now: datetime) -> datetime:
        """When to look again at what is held now."""
        return now + timedelta(seconds=self.settings.recheck_every)
