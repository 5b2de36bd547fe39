"""The course of an attempt, from planned to its end.

Invariant: its next state is in the database before and after each step. Whatever kills us in
between, the attempt is found under way and taken up: it is verified, never repeated.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from fleet.backend import Backend
from fleet.settings import Mode, Settings
from remediator import recovery
from remediator.backoff import patience
from remediator.incident import UNDER_WAY, Attempt, AttemptState
from remediator.journal import Journal
from remediator.peers import Peers
from remediator.store import Store

SHADOW_WATCH = timedelta(hours=24)


@dataclass
class Course:
    """Takes attempts further. ``clock`` gives the wall time."""

    settings: Settings
    store: Store
    journal: Journal
    peers: Peers
    clock: Callable[[], datetime]
    stopping: threading.Event

    def begin(self, attempt: Attempt, backend: Backend) -> None:
        """Save what the server shows, move its streams away, and restart it.

        In shadow mode nothing is asked of a gateway and nothing is restarted. Raises StorageError,
        and TakenOverError where another remediator has taken the attempt for ours no more.
        """
        evidence = self.peers.evidence.save(backend, attempt.id, self.clock())
        if self.stopping.is_set():
            return
        if attempt.mode is Mode.SHADOW:
            why = "in shadow mode nothing is restarted"
            self._advance(attempt, AttemptState.STARTING, why=why, evidence=evidence)
            return
        drained = ""
        if backend.gateways:
            drained = self.peers.gateways.drain(backend, partial(self._tell_left, attempt)).why
            if self.stopping.is_set():
                return
        attempt = self._advance(attempt, AttemptState.ACTING, evidence=evidence, drained=drained)
        outcome = self.peers.restarter.restart(backend)
        self._advance(
            attempt,
            AttemptState.STARTING if outcome.ok else AttemptState.FAILED,
            why=outcome.why,
            exit_status=outcome.exit_status,
            output=outcome.output,
        )

    def _tell_left(self, attempt: Attempt, left: Mapping[str, int | None]) -> None:
        """Show whoever watches the attempt how many streams are still there."""
        known = [count for count in left.values() if count is not None]
        self.store.attempts.tell(attempt, drained=f"{sum(known)} streams are still there")

    def follow(self, attempt_id: int) -> None:
        """Take an attempt that is under way a step further, if it can be.

        Raises StorageError and TakenOverError.
        """
        attempt = self.store.attempts.attempt(attempt_id)
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

    def _take_up(self, attempt: Attempt) -> None:
        """Go on with an attempt that somebody began who is not there any more."""
        if attempt.state is AttemptState.PLANNED:
            why = "the remediator ended before the restart was begun"
            self._advance(attempt, AttemptState.INTERRUPTED, why=why)
        else:
            why = "the remediator ended before the restart did"
            self._advance(attempt, AttemptState.STARTING, why=why)

    def _verify(self, attempt: Attempt, backend: Backend) -> None:
        now = self.clock()
        deadline = attempt.last_at + self._patience(attempt, backend)
        seen = self.peers.witness.after(backend, attempt, ask_it=now >= deadline)
        end = recovery.end(attempt, seen, now, deadline)
        if end is not None:
            self._advance(
                attempt,
                end.state,
                why=end.why,
                start_time_after=end.start_time,
                shadow_outcome=end.shadow_outcome,
            )

    def _patience(self, attempt: Attempt, backend: Backend) -> timedelta:
        if attempt.mode is Mode.SHADOW:
            return SHADOW_WATCH
        longest = self.store.records.record(backend.name).longest_load
        seconds = patience(backend.load_time, longest)
        if attempt.exit_status is None and backend.restart is not None:
            seconds += backend.restart.timeout  # nobody saw its end: it may be running still
        return timedelta(seconds=seconds)

    def _advance(self, attempt: Attempt, state: AttemptState, **values: object) -> Attempt:
        if state not in UNDER_WAY:
            # Before its end is written: if we are killed in between, it is done once more.
            self._undrain(attempt)
        now = self.clock()
        attempt = self.store.attempts.advance(attempt, state, now, **values)
        self.journal.came_to(attempt)
        if not attempt.under_way:
            self.store.incidents.look_again(attempt.incident_id, now)
        return attempt

    def _undrain(self, attempt: Attempt) -> None:
        """Let the gateways use the backend again, however it ended: they look for themselves."""
        backend = self.settings.backend(attempt.backend)
        if backend is not None and backend.gateways and attempt.mode is Mode.ACT:
            self.peers.gateways.undrain(backend)
