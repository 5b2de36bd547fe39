"""What a remediator works with, each with boundaries before and after everything it does."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from benchmarks.crash.boundary import Boundaries, step_of
from fleet.backend import Backend
from remediator.case import Standing
from remediator.database import Database
from remediator.drain import Drained, Drainer, Progress
from remediator.incident import Attempt, Incident
from remediator.peers import Alerts, Saver, Witness
from remediator.proof import Proof
from remediator.recovery import Aftermath
from remediator.restart import Outcome, Restarter

# Into the restart command: before and after it has done its work (world.RESTART).
INTO_THE_COMMAND = (0.05, 0.15, 0.25)


class WatchedDatabase(Database):
    """A database with a boundary before, within and after each transaction."""

    def __init__(self, url: str, boundaries: Boundaries) -> None:
        self._boundaries = boundaries
        super().__init__(url)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        step = step_of(sys._getframe())  # noqa: SLF001 -- a benchmark's own look at who asks
        with super().read() as connection:
            yield connection
        self._boundaries.reach(f"{step}: read")

    @contextmanager
    def write(self, *, urgent: bool = False) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or not at all."""
        step = step_of(sys._getframe())  # noqa: SLF001 -- as above
        self._boundaries.reach(f"{step}: before")
        with super().write(urgent=urgent) as connection:
            yield connection
            self._boundaries.reach(f"{step}: not committed")
        self._boundaries.reach(f"{step}: committed")


@dataclass(frozen=True)
class WatchedAlerts:
    """Alertmanager."""

    peer: Alerts
    boundaries: Boundaries

    def standing(self, incident: Incident) -> Standing:
        """How the incident's alert stands."""
        self.boundaries.reach("ask Alertmanager: before")
        standing = self.peer.standing(incident)
        self.boundaries.reach("ask Alertmanager: after")
        return standing


@dataclass(frozen=True)
class WatchedWitness:
    """The direct look."""

    peer: Witness
    boundaries: Boundaries

    def prove(self, backend: Backend, engine: str | None) -> Proof:
        """What a look shows before a restart."""
        self.boundaries.reach("prove: before")
        proof = self.peer.prove(backend, engine)
        self.boundaries.reach("prove: after")
        return proof

    def after(self, backend: Backend, attempt: Attempt, *, ask_it: bool) -> Aftermath:
        """What a look shows after one."""
        self.boundaries.reach("verify: before")
        seen = self.peer.after(backend, attempt, ask_it=ask_it)
        self.boundaries.reach("verify: after")
        return seen


@dataclass(frozen=True)
class WatchedSaver:
    """The evidence."""

    peer: Saver
    boundaries: Boundaries

    def save(self, backend: Backend, attempt_id: int, now: datetime) -> str | None:
        """Save it."""
        self.boundaries.reach("save evidence: before")
        where = self.peer.save(backend, attempt_id, now)
        self.boundaries.reach("save evidence: after")
        return where


@dataclass(frozen=True)
class WatchedDrainer:
    """The gateways."""

    peer: Drainer
    boundaries: Boundaries

    def drain(self, backend: Backend, progress: Progress | None = None) -> Drained:
        """Ask them to move the streams."""
        self.boundaries.reach("drain: before")
        drained = self.peer.drain(backend, progress)
        self.boundaries.reach("drain: after")
        return drained

    def undrain(self, backend: Backend) -> Drained:
        """Tell them that it may be used again."""
        self.boundaries.reach("undrain: before")
        drained = self.peer.undrain(backend)
        self.boundaries.reach("undrain: after")
        return drained


@dataclass(frozen=True)
class WatchedRestarter:
    """The driver; there are boundaries while it runs, too."""

    peer: Restarter
    boundaries: Boundaries

    def restart(self, backend: Backend) -> Outcome:
        """Restart it."""
        self.boundaries.reach("restart: before")
        for seconds in INTO_THE_COMMAND:
            within = f"restart: {seconds:g} s into it"
            timer = threading.Timer(seconds, self.boundaries.reach, (within,))
            timer.daemon = True
            timer.start()
        outcome = self.peer.restart(backend)
        self.boundaries.reach("restart: after")
        return outcome


@dataclass(frozen=True)
class Gateways:
    """Gateways that obey after a moment. ``told`` is the file of what they were told, in order."""

    told: Path

    def drain(self, backend: Backend, progress: Progress | None = None) -> Drained:
        """Move the streams."""
        del progress
        self._write("drain")
        return Drained(ok=True, why=f"no stream was left on {backend.name}", left=0)

    def undrain(self, backend: Backend) -> Drained:
        """Use it again."""
        self._write("undrain")
        return Drained(ok=True, why=f"{backend.name} may be used again", left=None)

    def _write(self, word: str) -> None:
        with self.told.open("a") as file:
            file.write(f"{word}\n")
        time.sleep(0.02)
