"""Reads from the database what the pages and the API show of each backend."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fleet.backend import Backend
from fleet.settings import RemediatorSettings, Settings
from remediator.case import NOT_ASKED
from remediator.gather import Gather
from remediator.incident import Incident, IncidentState, Origin
from remediator.notification import Symptom
from remediator.overview import Known
from remediator.reasoning import Why, examined, reasoning
from remediator.store import Store

MOST_DECISIONS = 20


@dataclass(frozen=True)
class Survey:
    """Looks things up by these settings. Its methods raise StorageError."""

    settings: Settings
    limits: RemediatorSettings
    store: Store

    def all(self, now: datetime) -> tuple[Known, ...]:
        """What is known of each backend, in the order of fleet.yml."""
        incidents = self.store.incidents.open()
        return tuple(self._known(backend, incidents, now) for backend in self.settings.backends)

    def one(self, backend: Backend, now: datetime) -> Known:
        """What is known of one backend."""
        return self._known(backend, self.store.incidents.open(), now)

    def why(self, backend: str) -> Why:
        """The last decision about a backend, with what its questions came to."""
        journal = self.store.incidents.newest_decisions(MOST_DECISIONS, backend)
        line = examined(journal)
        incident = None if line is None else self.store.incidents.incident(line.incident_id)
        return reasoning(backend, incident, journal)

    def _known(self, backend: Backend, incidents: Iterable[Incident], now: datetime) -> Known:
        asked = _asked_now(backend.name, now)
        with self.store.database.read() as connection:
            gather = Gather(self.settings, self.limits)
            case = gather.case(connection, asked, NOT_ASKED, None, now)
        journal = self.store.incidents.newest_decisions(1, backend.name)
        return Known(
            backend=backend,
            case=case,
            incidents=tuple(i for i in incidents if i.backend == backend.name),
            decided=journal[0] if journal else None,
        )


def _asked_now(backend: str, now: datetime) -> Incident:
    """The incident that there would be if a person asked for a restart now."""
    return Incident(
        id=0,
        fingerprint="",
        starts_at=now,
        ends_at=None,
        alertname="",
        backend=backend,
        engine=None,
        remediate="",
        symptom=Symptom.STUCK,
        state=IncidentState.OPEN,
        opened_at=now,
        heard_at=now,
        next_look_at=now,
        origin=Origin.PERSON,
    )
