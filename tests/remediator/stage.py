"""A remediator on a clock of its own, with a real database and fakes for all that is outside."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

from fleet.reading import Reading
from fleet.settings import Mode, Settings
from remediator import attempts
from remediator.case import AlertState, Standing
from remediator.incident import Attempt, AttemptState, Incident
from remediator.journal import Journal
from remediator.locks import Locks
from remediator.notification import Alert
from remediator.peers import Peers
from remediator.proof import Request
from remediator.recovery import Aftermath
from remediator.remedy import Remedy
from remediator.store import Store
from remediator.worker import Worker
from tests.remediator import making
from tests.remediator.fakes import (
    Clock,
    FakeAlertmanager,
    FakeEvidence,
    FakeGateways,
    FakeRestarter,
    FakeWitness,
    Killed,
    at_once,
)

BACK = Aftermath(
    making.reading(making.T0.timestamp() + 60),
    request=Request.ANSWERED,
    request_why="answered in 0.05 s",
)
GONE = Aftermath(None, "the connection was refused")


def planned(
    store: Store, incident: Incident, mode: Mode, before: Reading | None, now: datetime
) -> Attempt:
    """An attempt on an incident, just planned."""
    with store.database.write() as connection:
        return attempts.plan(connection, incident, mode, before, now)


@dataclass
class Stage:
    """``tell`` a notification, let time ``pass_``, and see what became of it."""

    folder: Path
    settings: Settings = field(default_factory=making.settings)
    start: Callable[[Callable[[], None]], None] = at_once
    clock: Clock = field(default_factory=lambda: Clock(making.at(60)))
    url: str = ""

    def __post_init__(self) -> None:
        self.alertmanager = FakeAlertmanager()
        self.witness = FakeWitness(self.clock)
        self.restarter = FakeRestarter()
        self.evidence = FakeEvidence()
        self.gateways = FakeGateways()
        self.open()

    def open(self) -> None:
        """Start the program: on the same database, with nothing else remembered."""
        self.stopping = threading.Event()
        self.journal = Journal()
        self.store = Store(self.url or f"sqlite:///{self.folder / 'remediator.db'}")
        limits = self.settings.remediator
        assert limits is not None
        peers = Peers(self.alertmanager, self.witness, self.restarter, self.evidence, self.gateways)
        self.remedy = Remedy(
            self.settings, limits, self.store, self.journal, peers, self.clock, self.stopping
        )
        self.locks = Locks(
            self.store.database, limits.takeover_after, monotonic=self.clock.monotonic
        )
        self.worker = Worker(
            self.remedy, self.locks, start=self.start, monotonic=self.clock.monotonic
        )

    def kill_and_start(self) -> None:
        """What is left of a program that was killed is its database."""
        self.store.close()
        self.restarter.killed = ""
        self.evidence.killed = False
        self.gateways.killed = self.gateways.killed_at_the_end = False
        self.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def tell(self, *alerts: Alert) -> None:
        """A notification comes in and is stored."""
        self.store.incidents.note(alerts or (making.alert(),), self.clock())

    def turn(self) -> None:
        """One turn, after which the program may be gone."""
        with suppress(Killed):
            self.worker.turn()

    def pass_(self, seconds: float, tick: float = 10.0) -> None:
        """Let time pass, turning every ``tick`` seconds and at the end."""
        until = self.clock.now.timestamp() + seconds
        while self.clock.now.timestamp() < until:
            self.clock.advance(min(tick, until - self.clock.now.timestamp()))
            self.turn()

    def say(self, state: AlertState) -> None:
        """What Alertmanager says from now on."""
        since = making.T0 if state is AlertState.ACTIVE else None
        self.alertmanager.answer = Standing(state, f"so it is: {state}", since)

    @property
    def incident(self) -> Incident:
        return self.store.incidents.newest(1)[0]

    @property
    def states(self) -> list[AttemptState]:
        """The states of all attempts, the oldest first."""
        return [attempt.state for attempt in self.all_attempts]

    @property
    def all_attempts(self) -> list[Attempt]:
        return list(reversed(self.store.attempts.newest(100)))

    @property
    def told(self) -> list[str]:
        """The journal, the oldest first: ``hold cooling_down``."""
        lines = reversed(self.store.incidents.newest_decisions(100))
        return [f"{line.action} {line.reason}" for line in lines]
