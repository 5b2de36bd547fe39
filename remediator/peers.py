"""Everything outside that a treatment talks to, each behind the one thing that is asked of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fleet.backend import Backend
from remediator.case import Standing
from remediator.drain import Drainer
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
class Peers:
    """One of each."""

    alertmanager: Alerts
    witness: Witness
    restarter: Restarter
    evidence: Saver
    gateways: Drainer
