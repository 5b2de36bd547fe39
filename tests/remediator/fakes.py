"""What the remediator talks to, as tests want it: each a named class with its answers in fields."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Self

from fleet.backend import Backend
from remediator.case import Standing
from remediator.drain import Drained, Progress
from remediator.incident import Attempt, Incident
from remediator.proof import Proof
from remediator.recovery import Aftermath
from remediator.restart import Outcome
from tests.remediator.making import ACTIVE, T0, proof, reading


class Killed(BaseException):
    """The program is gone from here on; no ``except Exception`` sees it."""


@dataclass
class Clock:
    """A wall clock and a monotonic clock that stand still until they are told otherwise."""

    now: datetime = T0

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class FakeAlertmanager:
    """Says ``standing`` of every alert, and runs ``when_asked`` first."""

    answer: Standing = ACTIVE
    asked: int = 0
    when_asked: Callable[[int], None] = lambda _: None

    def standing(self, incident: Incident) -> Standing:
        del incident
        self.asked += 1
        self.when_asked(self.asked)
        return self.answer


@dataclass
class FakeWitness:
    """Shows ``seen`` before a restart and ``afterwards`` after it."""

    clock: Clock
    seen: Proof = field(default_factory=proof)
    afterwards: Aftermath = field(default_factory=lambda: Aftermath(reading()))
    proofs: list[tuple[str, str | None]] = field(default_factory=list)
    looks: list[tuple[str, bool]] = field(default_factory=list)
    while_proving: Callable[[], object] = lambda: None

    def prove(self, backend: Backend, engine: str | None) -> Proof:
        self.proofs.append((backend.name, engine))
        self.clock.advance(self.seen.seconds)
        self.while_proving()
        return replace(self.seen, at=self.clock.now)

    def after(self, backend: Backend, attempt: Attempt, *, ask_it: bool) -> Aftermath:
        del attempt
        self.looks.append((backend.name, ask_it))
        return self.afterwards


@dataclass
class FakeRestarter:
    """Ends as ``outcome`` says; ``killed`` tells where the program is killed instead."""

    outcome: Outcome = field(
        default_factory=lambda: Outcome(
            ok=True, why="the command ended with status 0", exit_status=0
        )
    )
    restarted: list[str] = field(default_factory=list)
    killed: str = ""
    when_run: Callable[[], None] = lambda: None

    def restart(self, backend: Backend) -> Outcome:
        if self.killed == "before":
            raise Killed
        self.restarted.append(backend.name)
        self.when_run()
        if self.killed == "during":
            raise Killed
        return self.outcome


@dataclass
class FakeEvidence:
    """Saves nothing and says where."""

    where: str | None = None
    saved: list[tuple[str, int]] = field(default_factory=list)
    killed: bool = False
    while_saving: Callable[[], None] = lambda: None

    def save(self, backend: Backend, attempt_id: int, now: datetime) -> str | None:
        del now
        if self.killed:
            raise Killed
        self.saved.append((backend.name, attempt_id))
        self.while_saving()
        return self.where


@dataclass
class FakeGateways:
    """Says ``answer``, and remembers what it was asked."""

    answer: Drained = field(
        default_factory=lambda: Drained(ok=True, why="no stream was left on it", left=0)
    )
    drained: list[str] = field(default_factory=list)
    undrained: list[str] = field(default_factory=list)
    killed: bool = False
    killed_at_the_end: bool = False

    def drain(self, backend: Backend, progress: Progress | None = None) -> Drained:
        self.drained.append(backend.name)
        if progress is not None:
            progress({"http://gateway": 2, "http://other": None})
        if self.killed:
            raise Killed
        return self.answer

    def undrain(self, backend: Backend) -> Drained:
        if self.killed_at_the_end:
            raise Killed
        self.undrained.append(backend.name)
        return self.answer


@dataclass
class Stuck:
    """A call that returns to nobody until it is released, as one to a disk that hangs."""

    released: threading.Event = field(default_factory=threading.Event)

    def __call__(self, *_: object, **__: object) -> None:
        self.released.wait(60)
        raise OSError("released")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()


@dataclass
class FakeLoop:
    """A worker that only remembers that it was woken."""

    woken: int = 0
    says: str | None = None

    def wake(self) -> None:
        self.woken += 1

    def trouble(self) -> str | None:
        return self.says


@dataclass
class Later:
    """Starts jobs only when told to, so that several are in hand at once."""

    jobs: list[Callable[[], None]] = field(default_factory=list)

    def __call__(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def run_all(self) -> None:
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job()


def at_once(job: Callable[[], None]) -> None:
    """Run a job here and now."""
    job()


@contextmanager
def in_background(job: Callable[[], None]) -> Iterator[threading.Thread]:
    """A job in a thread that is joined at the end."""
    thread = threading.Thread(target=job)
    thread.start()
    yield thread
    thread.join(60.0)
    assert not thread.is_alive()
