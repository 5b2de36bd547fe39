"""An incident's treatment: gather what bears on it, decide, act, follow the attempt to its end.

Invariant: the attempt is in the database before anything is done to a server, and its next state
before and after each step. Whatever kills us in between, the attempt is found under way and taken
up: it is verified, never repeated.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from fleet.backend import Backend
from fleet.settings import Mode, RemediatorSettings, Settings
from remediator import recovery
from remediator.attempts import Attempts, UnderWayError
from remediator.case import NOT_ASKED, Case, Standing
from remediator.decision import Decision, Hold, Reason, Restart, Verify
from remediator.incident import Attempt, AttemptState, Incident
from remediator.journal import Journal
from remediator.notification import Alert, Status
from remediator.policy import REMEDIATE, decide
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
    """Everything outside that a treatment talks to."""

    alertmanager: Alerts
    witness: Witness
    restarter: Restarter
    evidence: Saver


@dataclass
class Remedy:
    """Treats incidents, from several threads, though never two of one backend at once.

    ``clock`` gives the wall time. Once ``stopping`` is set nothing new is begun.
    """

    settings: Settings
    limits: RemediatorSettings
    attempts: Attempts
    journal: Journal
    peers: Peers
    clock: Callable[[], datetime]
    stopping: threading.Event
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def consider(self, incident_id: int) -> None:
        """Decide about an incident, and act on a decision to restart. Raises StorageError."""
        incident = self.attempts.incident(incident_id)
        backend = self.settings.backend(incident.backend)
        standing = self._standing(incident, backend)
        decision = self._decide(incident, backend, standing, None)
        if decision.reason is Reason.SUPERSEDED:
            self._open_later(incident, standing)
        if backend is None or not isinstance(decision, Verify):
            self._record(incident, decision)
            return
        proof = self.peers.witness.prove(backend, incident.engine)
        standing = self._standing(incident, backend)
        # What one restart uses up must be seen by the next decision.
        with self._one_at_a_time:
            incident = self.attempts.incident(incident_id)
            decision = self._decide(incident, backend, standing, proof)
            attempt = self._planned(incident, decision, proof)
        if attempt is not None:
            self._act(attempt, backend)

    def follow(self, attempt_id: int) -> None:
        """Take an attempt that is under way a step further, if it can be. Raises StorageError."""
        attempt = self.attempts.attempt(attempt_id)
        backend = self.settings.backend(attempt.backend)
        if not attempt.under_way:
            return
        if backend is None:
            why = f"{attempt.backend} is not in fleet.yml any more"
            self._advance(attempt, AttemptState.INTERRUPTED, why=why)
        elif attempt.state is AttemptState.STARTING:
            self._verify(attempt, backend)
        else:
            self._take_up(attempt)

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
        self.attempts.note([alert], self.clock())

    def _standing(self, incident: Incident, backend: Backend | None) -> Standing:
        if backend is None or incident.remediate != REMEDIATE:
            return NOT_ASKED
        return self.peers.alertmanager.standing(incident)

    def _decide(
        self, incident: Incident, backend: Backend | None, standing: Standing, proof: Proof | None
    ) -> Decision:
        now = self.clock()
        since = now - timedelta(seconds=max(self.limits.cool_down, self.limits.fleet_window))
        attempts = self.attempts.bearing_on(incident, since)
        return decide(Case(incident, backend, attempts, standing, self.limits, proof), now)

    def _planned(self, incident: Incident, decision: Decision, proof: Proof) -> Attempt | None:
        """Record a decision, and write down the attempt where it is to restart."""
        if self.stopping.is_set():
            return None
        attempt = None
        if isinstance(decision, Restart):
            now = self.clock()
            try:
                attempt = self.attempts.plan(incident, self.limits.mode, proof.reading, now)
            except UnderWayError as error:
                until = now + timedelta(seconds=self.limits.recheck_every)
                decision = Hold(Reason.UNDER_WAY, until, str(error))
        self._record(incident, decision)
        if attempt is not None:
            self.journal.came_to(attempt)
        return attempt

    def _record(self, incident: Incident, decision: Decision) -> None:
        if isinstance(decision, Verify):
            return  # the proof has grown old meanwhile: the incident stays due
        now = self.clock()
        next_look_at = now + timedelta(seconds=self.limits.recheck_every)
        if isinstance(decision, Hold):
            next_look_at = min(next_look_at, decision.until)
        self.attempts.decided(incident, decision, next_look_at, now)
        self.journal.decided(incident, decision)

    def _act(self, attempt: Attempt, backend: Backend) -> None:
        evidence = self.peers.evidence.save(backend, attempt.id, self.clock())
        if self.stopping.is_set():
            return
        if attempt.mode is Mode.SHADOW:
            why = "in shadow mode nothing is restarted"
            self._advance(attempt, AttemptState.STARTING, why=why, evidence=evidence)
            return
        attempt = self._advance(attempt, AttemptState.ACTING, evidence=evidence)
        outcome = self.peers.restarter.restart(backend)
        self._advance(
            attempt,
            AttemptState.STARTING if outcome.ok else AttemptState.FAILED,
            why=outcome.why,
            exit_status=outcome.exit_status,
            output=outcome.output,
        )

    def _take_up(self, attempt: Attempt) -> None:
        """Go on with an attempt that somebody began who is not there any more."""
        if attempt.state is AttemptState.PLANNED:
            why = "the remediator ended before the restart command was begun"
            self._advance(attempt, AttemptState.INTERRUPTED, why=why)
        else:
            why = "the remediator ended before the restart command did"
            self._advance(attempt, AttemptState.STARTING, why=why)

    def _verify(self, attempt: Attempt, backend: Backend) -> None:
        now = self.clock()
        deadline = attempt.last_at + timedelta(seconds=backend.load_time)
        seen = self.peers.witness.after(backend, attempt, ask_it=now >= deadline)
        end = recovery.end(attempt, seen, now, deadline)
        if end is not None:
            self._advance(attempt, end.state, why=end.why, start_time_after=end.start_time)

    def _advance(self, attempt: Attempt, state: AttemptState, **values: object) -> Attempt:
        now = self.clock()
        attempt = self.attempts.advance(attempt, state, now, **values)
        self.journal.came_to(attempt)
        if not attempt.under_way:
            self.attempts.look_again(attempt.incident_id, now)
        return attempt
