"""Everything outside that a treatment talks to, each behind the one thing that is asked of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fleet.backend import Backend
from remediator.case import Standing
from remediator.incident import Attempt, Incident
from remediator.proof import Proof
from remediator.recovery import Aftermath
from remediator.restart import Restarter


class Alerts(Protocol):
    """Knows how an alert stands right now."""

    def standing(self, incident: Incident) -> Standing:
        """How the incident's alert stands; UNKNOWN where that is not known."""
        ...


class Witness(Protocol):
    """Looks at a backend directly."""

    def prove(self, backend: Backend, engine: str | None) -> Proof:
        """What a look shows before a restart."""
        ...

    def after(self, backend: Backend, attempt: Attempt, *, ask_it: bool) -> Aftermath:
        """What a look shows after one."""
        ...


class Saver(Protocol):
    """Saves what a server shows."""

    def save(self, backend: Backend, attempt_id: int, now: datetime) -> str | None:
        """Save it, and tell where."""
        ...


@dataclass(frozen=True)
class Drained:
    """What the gateways of a backend made of being asked to move its streams.

    ``ok``: whether none is left there. ``left``: how many are, None where nobody could tell.
    """

    ok: bool
    why: str
    left: int | None = None


class Drainer(Protocol):
    """Moves a backend's streams away. Bounded in time; raises nothing."""

    def drain(self, backend: Backend) -> Drained:
        """Ask its gateways to, and wait until they have."""
        ...

    def undrain(self, backend: Backend) -> Drained:
        """Tell its gateways that it may be used again."""
        ...


@dataclass(frozen=True)
class Peers:
    """One of each."""

    alertmanager: Alerts
    witness: Witness
    restarter: Restarter
    evidence: Saver
    gateways: Drainer
