"""An incident's treatment: gather what bears on it, decide, and begin an attempt if it is to be.

Invariant: an attempt is in the database before anything is done to a server, together with the
decision for it, and both in one transaction with everything that the decision was made of.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from fleet.backend import Backend
from fleet.settings import RemediatorSettings, Settings
from remediator import attempts, episodes, records
from remediator.case import NOT_ASKED, Standing
from remediator.course import Course
from remediator.decision import Hold, Reason, Restart, Verify
from remediator.gather import Gather
from remediator.incident import Attempt, Incident
from remediator.journal import Journal
from remediator.locks import one_at_a_time
from remediator.notification import REMEDIATE, Alert, Status
from remediator.peers import Peers
from remediator.policy import Examined, examine
from remediator.proof import Proof
from remediator.store import Store

Take = Callable[[], bool]
"""Takes the lock of the backend in question; tells whether it is ours."""


@dataclass
class Remedy:
    """Treats incidents, from several threads, though never two of one backend at once.

    ``clock`` gives the wall time. Once ``stopping`` is set nothing new is begun.
    """

    settings: Settings
    limits: RemediatorSettings
    store: Store
    journal: Journal
    peers: Peers
    clock: Callable[[], datetime]
    stopping: threading.Event
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        """Set up what is made of the rest."""
        self._gather = Gather(self.settings, self.limits)
        self.course = Course(
            settings=self.settings,
            store=self.store,
            journal=self.journal,
            peers=self.peers,
            clock=self.clock,
            stopping=self.stopping,
        )

    def consider(self, incident_id: int, take: Take) -> None:
        """Decide about an incident, and act on a decision to restart.

        Before a server is looked at or touched its lock is taken; where ``take`` cannot, another
        remediator sees to it. Raises StorageError, and TakenOverError where another remediator has
        the attempt in hand.
        """
        incident = self.store.incidents.incident(incident_id)
        backend = self.settings.backend(incident.backend)
        standing = self._standing(incident, backend)
        examined = self._examine(incident, standing)
        if examined.decision.reason is Reason.SUPERSEDED:
            self._open_later(incident, standing)
        if backend is None or not isinstance(examined.decision, Verify | Restart):
            self._record(incident, examined)
            return
        if not take():
            return
        proof = None
        if isinstance(examined.decision, Verify):
            proof = self.peers.witness.prove(backend, incident.engine)
            standing = self._standing(incident, backend)
        attempt = self._decided(incident_id, standing, proof)
        if attempt is not None:
            self.course.begin(attempt, backend)

    def _open_later(self, incident: Incident, standing: Standing) -> None:
        """Open the episode that Alertmanager speaks of now.

        An alert that ends and fires again between two notifications is not notified about anew.
        """
        alert = Alert(
            status=Status.FIRING,
            fingerprint=incident.fingerprint,
            starts_at=standing.starts_at or incident.starts_at,
            ends_at=None,
            alertname=incident.alertname,
            backend=incident.backend,
            engine=incident.engine,
            remediate=incident.remediate,
            symptom=incident.symptom,
        )
        self.store.incidents.note([alert], self.clock())

    def _standing(self, incident: Incident, backend: Backend | None) -> Standing:
        if backend is None or incident.remediate != REMEDIATE:
            return NOT_ASKED
        return self.peers.alertmanager.standing(incident)

    def _examine(self, incident: Incident, standing: Standing) -> Examined:
        now = self.clock()
        with self.store.database.read() as connection:
            return examine(self._gather.case(connection, incident, standing, None, now), now)

    def _decided(self, incident_id: int, standing: Standing, proof: Proof | None) -> Attempt | None:
        """Decide with the proof, record it, and plan the attempt: all or nothing.

        What one restart uses up must be seen by the next decision, whoever makes it.
        """
        attempt = None
        with self.store.database.write() as connection:
            one_at_a_time(connection)
            now = self.clock()
            incident = episodes.incident(connection, incident_id)
            examined = examine(self._gather.case(connection, incident, standing, proof, now), now)
            if isinstance(examined.decision, Restart):
                if self.stopping.is_set():
                    return None
                before = proof.reading if proof else None
                try:
                    attempt = attempts.plan(connection, incident, self.limits.mode, before, now)
                except attempts.UnderWayError as error:
                    until = now + timedelta(seconds=self.limits.recheck_every)
                    held = Hold(Reason.UNDER_WAY, until, str(error))
                    examined = Examined(held, examined.answers)
            self._write(connection, incident, examined)
        self._tell(incident, examined)
        if attempt is not None:
            self.journal.came_to(attempt)
        return attempt

    def _record(self, incident: Incident, examined: Examined) -> None:
        with self.store.database.write() as connection:
            self._write(connection, incident, examined)
        self._tell(incident, examined)

    def _write(self, connection: Connection, incident: Incident, examined: Examined) -> None:
        decision = examined.decision
        if isinstance(decision, Verify):
            return  # the proof has grown old meanwhile: the incident stays due
        now = self.clock()
        next_look_at = now + timedelta(seconds=self.limits.recheck_every)
        if isinstance(decision, Hold):
            next_look_at = min(next_look_at, decision.until)
        episodes.record(connection, incident, decision, now, examined.answers)
        episodes.look_again(connection, incident.id, next_look_at)
        if decision.reason is Reason.GAVE_UP:
            records.give_up(connection, incident.backend, decision.why, now)

    def _tell(self, incident: Incident, examined: Examined) -> None:
        if not isinstance(examined.decision, Verify):
            self.journal.decided(incident, examined.decision)
