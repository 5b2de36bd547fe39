"""What a method sees of a server: as over HTTP, and nothing else."""

from dataclasses import dataclass
from typing import Protocol

from benchmarks.tournament.job import Job
from fleet.fetch import Failure, Trouble
from fleet.reading import Reading

REFUSED = Failure(Trouble.REFUSED, "the connection was refused")
TIMEOUT = Failure(Trouble.TIMEOUT, "no answer in time")
ENGINE_DEAD = Failure(Trouble.HTTP_ERROR, "503", status=503)
# The wall clock when the virtual clock is at 0, in Unix seconds.
FIRST_START = 1_700_000_000
# How long an exchange takes that nothing delays, in seconds.
QUICK = 0.02


@dataclass(eq=False, slots=True)
class Ticket:
    """A request that a method has sent; ``error_at``: when it broke off, if it did."""

    job: Job
    engine: int
    error_at: float | None = None


class Seen(Protocol):
    """A server from outside. ``now`` is the virtual time in seconds and never goes backwards."""

    def metrics(self, now: float, timeout: float) -> Reading | Failure:
        """GET /metrics, read as ``fleet.reading`` reads it."""

    def health(self, now: float, timeout: float) -> Failure | None:
        """GET /health; None is 200."""

    def is_paused(self, now: float) -> bool | None:
        """GET /is_paused; None where it is not served or not answered."""

    def send(self, now: float, engine: str | None, prompt: int, target: int) -> Ticket | Failure:
        """POST a request for ``target`` tokens, to one data-parallel rank or to any."""

    def answered_at(self, ticket: Ticket, now: float) -> float | None:
        """When its last token came, if it has by ``now``."""

    def abandon(self, ticket: Ticket, now: float) -> None:
        """Hang up."""
