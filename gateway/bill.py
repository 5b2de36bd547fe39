"""What a request tells the bill, and what the bill says to a new one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class BillError(Exception):
    """The bill cannot be written; one sentence. Nothing may be delivered that is not on it."""


MOST_TOKENS = 2**31 - 1


def bounded(tokens: int) -> int:
    """A number of tokens as a server gave it, in bounds: nothing it says may hold up the bill."""
    return min(max(0, tokens), MOST_TOKENS)


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
    """The ledger, as a request knows it. All but ``admit`` never wait; times in Unix seconds."""

    async def admit(self, opened: Opened) -> Admission:
        """Write a request down before anybody works on it."""
        ...

    async def reopen(self, opened: Opened) -> Admission:
        """Go on with one that was interrupted: its totals go on from where they were."""
        ...

    async def would_admit(self, opened: Opened) -> Admission:
        """What ``admit`` would say now; nothing is written down."""
        ...

    async def stage(self, caller: str, request_id: str) -> End | Admission:
        """How a request has ended; BUSY while it is in hand, NEW where it is not known."""
        ...

    def prompt(self, request_id: str, tokens: int, read: int | None = None) -> None:
        """The prompt's length, charged once; ``read``: what this leg has read, if that is more."""
        ...

    async def look(self) -> int:
        """Book what gateways of this host left that were killed; returns how many requests."""
        ...

    def line(self, request_id: str) -> Callable[[int], None]:
        """What to call when one event of one output token is about to be sent to the client."""
        ...

    def add(self, request_id: str, ids: Sequence[int], behind: Sequence[int] = ()) -> None:
        """These output tokens are about to be sent to the client, in so many events.

        ``behind``: for each event, how many of the tokens so far have no text in it yet; negative
        where that is not known.
        """
        ...

    def details(self, request_id: str, details: Sequence[Sequence[object]]) -> None:
        """The details of events that are about to be sent; they come before the events."""
        ...

    def keep(self, request_id: str, snapshot: bytes) -> None:
        """What another gateway needs to go on with it and what is added later; empty: none can."""
        ...

    def again(self, request_id: str, tokens: int) -> None:
        """So many of the tokens that follow are on the bill already."""
        ...

    def count(self, request_id: str, tokens: int) -> None:
        """So many output tokens, whose ids are not known, are about to be sent."""
        ...

    def begins(self, request_id: str, backend: str, at: float) -> None:
        """A leg begins."""
        ...

    def leg(self, request_id: str, leg: LegEnd) -> None:
        """A leg has ended."""
        ...

    def close(self, request_id: str, closed: Closed) -> None:
        """It has ended."""
        ...
