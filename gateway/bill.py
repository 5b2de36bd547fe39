"""What a request tells the bill, and what the bill says to a new one."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class End(StrEnum):
    """How a request ended, as the ledger keeps it.

    REFUSED: nobody could take it, nothing is charged. FAILED: it was taken and gave nothing.
    """

    COMPLETE = "complete"
    PARTIAL = "partial"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Opened:
    """A request as it is admitted; ``at`` is in Unix seconds.

    ``key``: what names the request for its caller, so that it is charged once: the client's, or the
    request's id.
    """

    request_id: str
    caller: str
    key: str
    model: str
    route: str
    at: float


@dataclass(frozen=True)
class LegEnd:
    """One leg: what a backend did for the request, whether or not it was charged."""

    backend: str
    prompt_tokens: int
    completion_tokens: int
    how: str
    at: float


@dataclass(frozen=True)
class Closed:
    """A request's end; ``at`` is in Unix seconds."""

    end: End
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    at: float


class Admission(StrEnum):
    """What the ledger says to a request."""

    NEW = "new"
    AGAIN = "again"
    BUSY = "busy"


class Bill(Protocol):
    """The ledger, as a request knows it. ``add`` is called before bytes go out, and never waits."""

    async def admit(self, opened: Opened) -> Admission:
        """Write a request down, durably, before anybody works on it."""
        ...

    def add(self, request_id: str, ids: Sequence[int]) -> None:
        """These output tokens are about to be sent to the client."""
        ...

    def keep(self, request_id: str, snapshot: bytes) -> None:
        """What another replica needs to go on with it."""
        ...

    def leg(self, request_id: str, leg: LegEnd) -> None:
        """A leg has ended."""
        ...

    def close(self, request_id: str, closed: Closed) -> None:
        """It has ended."""
        ...
