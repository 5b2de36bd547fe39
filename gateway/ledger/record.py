"""What the ledger keeps of a request, and how what was counted becomes part of it.

A request is served in runs: one by each gateway that had it in hand. A run's total only grows, and
the request's total is the sum over its runs. So booking the same thing twice, an older thing
later, or two things in either order comes to the same: nothing is lost, nothing counts twice.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from gateway.bill import Closed, End, Opened

LONGEST_WORD = 200


class State(StrEnum):
    """Where a request stands; PARTIAL may become COMPLETE once, and nothing goes back.

    REFUSED and FAILED are free: nothing was delivered, and the same key may try again.
    """

    OPEN = "open"
    REFUSED = "refused"
    FAILED = "failed"
    PARTIAL = "partial"
    COMPLETE = "complete"


FREE = (State.REFUSED, State.FAILED)
BILLED = (State.OPEN, State.PARTIAL, State.COMPLETE)
_RANK = {state: rank for rank, state in enumerate(State)}


@dataclass(frozen=True, slots=True)
class Leg:
    """What one backend did in one run; ``number`` counts from 1, ``at`` is its end (Unix seconds).

    What it cost us, whether or not it was charged.
    """

    number: int
    backend: str
    prompt_tokens: int
    completion_tokens: int
    how: str
    at: float


@dataclass(frozen=True, slots=True)
class Booking:
    """How a run stands; ``state`` OPEN: it goes on. ``prompt_tokens`` None: not known (yet).

    ``at`` is in Unix seconds.
    """

    opened: Opened
    run: str
    prompt_tokens: int | None
    completion_tokens: int
    state: State
    finish_reason: str
    at: float
    legs: tuple[Leg, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A request in the ledger. ``run`` is the last one, ``holder`` the gateway that has it in hand.

    ``prompt_tokens`` is None until it is charged; then it never changes.
    """

    state: State
    prompt_tokens: int | None
    completion_tokens: int
    finish_reason: str
    run: str
    holder: str | None
    ended_at: float | None = None


def booked(record: Record, before: int, booking: Booking) -> Record:
    """The record with a run's booking in it; ``before`` is what that run had counted for so far."""
    completion = record.completion_tokens + max(0, booking.completion_tokens - before)
    prompt = record.prompt_tokens
    if prompt is None and booking.state not in FREE:
        prompt = booking.prompt_tokens
    ours = booking.run == record.run
    ended = booking.state != State.OPEN
    state, reason, ended_at = record.state, record.finish_reason, record.ended_at
    speaks = ended and (ours or booking.state in (State.PARTIAL, State.COMPLETE))
    if speaks and _RANK[booking.state] > _RANK[state]:
        state, reason, ended_at = booking.state, booking.finish_reason, booking.at
    return Record(
        state=state,
        prompt_tokens=prompt,
        completion_tokens=completion,
        finish_reason=reason,
        run=record.run,
        holder=None if ours and ended else record.holder,
        ended_at=ended_at,
    )


def state_of(closed: Closed, delivered: int) -> State:
    """The state that an end comes to; what was delivered is never free."""
    state = State(closed.end.value)
    return State.PARTIAL if state in FREE and delivered > 0 else state


def failed(opened: Opened, run: str, at: float) -> Booking:
    """The booking of a request on which nobody has worked."""
    return Booking(opened, run, None, 0, State(End.FAILED.value), "", at)


def word(text: str) -> str:
    """A client's word as every database takes it; one that is long or odd by its hash."""
    if len(text) <= LONGEST_WORD and text.isprintable():
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
