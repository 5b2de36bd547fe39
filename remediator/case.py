"""Everything a decision looks at, in one frozen value."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from fleet.backend import Backend
from fleet.settings import Mode, RemediatorSettings
from remediator.backoff import cool_down, unhelpful
from remediator.incident import Attempt, Incident
from remediator.proof import Proof
from remediator.record import HoldBack, Record

NOTHING_REMEMBERED = Record()
LAST_SECOND = datetime(9000, 1, 1, tzinfo=UTC).timestamp()


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
    ``in_trouble`` are the backends of which any alert with the label ``symptom`` fires there.
    """

    state: AlertState
    why: str
    starts_at: datetime | None = None
    in_trouble: frozenset[str] = frozenset()


NOT_ASKED = Standing(AlertState.UNKNOWN, "Alertmanager was not asked")


@dataclass(frozen=True)
class Case:
    """One incident and all that bears on it.

    ``backend`` is None where fleet.yml has none of that name. ``attempts`` holds every attempt, of
    any backend, that is under way, belongs to the incident, or was made since the alert began or
    within the longest of the windows and cool-downs, and the backend's last ones whenever they were
    made. ``holds`` are those in force for the backend, ``record`` is what else is remembered of it.
    ``fleet`` are the backends that can be judged, ``in_trouble`` those of them that have an open
    incident which asks for a restart. ``proof`` is None until the backend was read.
    """

    incident: Incident
    backend: Backend | None
    attempts: tuple[Attempt, ...]
    standing: Standing
    settings: RemediatorSettings
    proof: Proof | None = None
    holds: tuple[HoldBack, ...] = ()
    record: Record = NOTHING_REMEMBERED
    fleet: frozenset[str] = frozenset()
    in_trouble: frozenset[str] = frozenset()

    def recheck(self, now: datetime) -> datetime:
        """When to look again at what is held now."""
        return now + timedelta(seconds=self.settings.recheck_every)

    @property
    def counted(self) -> tuple[Attempt, ...]:
        """The attempts that count: one in shadow restarted nothing, but in shadow mode it did."""
        shadow = self.settings.mode is Mode.SHADOW
        return tuple(a for a in self.attempts if shadow or a.mode is Mode.ACT)

    @property
    def of_backend(self) -> tuple[Attempt, ...]:
        """Those of them on this backend."""
        return tuple(a for a in self.counted if a.backend == self.incident.backend)

    @property
    def started(self) -> datetime | None:
        """When the process that answers was started, once it has been read."""
        started = self.proof.start_time if self.proof else None
        if started is None or not 0 <= started < LAST_SECOND:
            return None
        return datetime.fromtimestamp(started, UTC)

    @property
    def unhelpful(self) -> int:
        """How many of the backend's restarts in a row did not help, up to this incident."""
        reset_at = self.record.reset_at
        ended = [
            attempt
            for attempt in self.of_backend
            if not attempt.under_way
            and attempt.acted
            and attempt.incident_id != self.incident.id
            and (reset_at is None or attempt.planned_at > reset_at)
        ]
        return unhelpful(ended, self.incident.starts_at, self.settings)

    @property
    def cool_down(self) -> timedelta:
        """How long the backend is left alone after a restart."""
        return cool_down(self.unhelpful, self.record.longest_load, self.settings)
