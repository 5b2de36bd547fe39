"""What backends say they have generated, against what the ledger says they have.

Two marks of a backend hold its own counters and how far the ledger was at the time. Between them,
both have moved by the same number of tokens, unless something was lost: then the backend has more.
A backend that others ask too has more as well, so then nothing can be told about loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.box import SIMPLE_HEAD
from rich.table import Table

PER_CENT = 100.0


class Finding(StrEnum):
    """What two marks come to. Only COUNTED says something about loss."""

    COUNTED = "counted"
    OTHERS = "others"
    RESTARTED = "restarted"
    UNREADABLE = "unreadable"
    NO_MARK = "no_mark"


@dataclass(frozen=True)
class Mark:
    """A backend at one moment; ``at`` and ``process_start`` are in Unix seconds.

    ``why``: the sentence why its page could not be read, empty where it could. ``last_leg`` is
    the number of the last leg in the ledger, ``open_*`` is what was under way besides.
    """

    backend: str
    at: float
    why: str = ""
    process_start: float | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    finished: int | None = None
    last_leg: int = 0
    open_legs: int = 0
    open_prompt: int = 0
    open_completion: int = 0


@dataclass(frozen=True)
class Legs:
    """The legs at a backend that have ended between two marks."""

    number: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Compared:
    """Two marks compared; counts are None where there is nothing to compare."""

    backend: str
    finding: Finding
    why: str
    theirs: int | None = None
    ours: int | None = None
    their_prompt: int | None = None
    our_prompt: int | None = None

    @property
    def loss(self) -> float | None:
        """Output tokens that the backend has generated and nobody has counted, in per cent."""
        if self.finding != Finding.COUNTED:
            return None
        return _loss(self.theirs or 0, self.ours or 0)


def compared(before: Mark | None, after: Mark, legs: Legs) -> Compared:
    """What became of a backend's tokens between two marks; ``legs`` have ended between them."""
    name = after.backend
    if before is None:
        return Compared(name, Finding.NO_MARK, "there is no earlier mark of it; this is the first")
    for mark in (before, after):
        if mark.generation_tokens is None:
            return Compared(name, Finding.UNREADABLE, mark.why or "its page has no such counter")
    theirs = (after.generation_tokens or 0) - (before.generation_tokens or 0)
    their_prompt = (after.prompt_tokens or 0) - (before.prompt_tokens or 0)
    if before.process_start != after.process_start or theirs < 0 or their_prompt < 0:
        why = "it was restarted between the marks, and its counters began anew"
        return Compared(name, Finding.RESTARTED, why)
    ours = legs.completion_tokens + after.open_completion - before.open_completion
    our_prompt = legs.prompt_tokens + after.open_prompt - before.open_prompt
    finished = (after.finished or 0) - (before.finished or 0)
    if finished > legs.number + after.open_legs:
        others = finished - legs.number - after.open_legs
        why = f"at least {others} requests were not ours: more tokens than ours are no loss"
        return Compared(name, Finding.OTHERS, why, theirs, ours, their_prompt, our_prompt)
    difference = theirs - ours
    why = (
        f"{difference} tokens that it generated were not counted"
        if difference > 0
        else f"{-difference} tokens more were counted than it generated"
        if difference < 0
        else "every token was counted"
    )
    return Compared(name, Finding.COUNTED, why, theirs, ours, their_prompt, our_prompt)


def overall(all_compared: Sequence[Compared]) -> float | None:
    """The loss over all backends that tell something, in per cent; None where none does."""
    telling = [one for one in all_compared if one.finding == Finding.COUNTED]
    if not telling:
        return None
    lost = sum(max(0, (one.theirs or 0) - (one.ours or 0)) for one in telling)
    theirs = sum(one.theirs or 0 for one in telling)
    return _loss(theirs, theirs - lost)


def as_table(all_compared: Sequence[Compared]) -> Table:
    """For people."""
    table = Table(box=SIMPLE_HEAD)
    for name in ("backend", "generated", "counted", "loss %", "prompt read", "counted", "finding"):
        table.add_column(name, justify="left" if name in ("backend", "finding") else "right")
    for one in all_compared:
        numbers = (one.theirs, one.ours, one.loss, one.their_prompt, one.our_prompt)
        shown = (
            "" if n is None else f"{n:,}" if isinstance(n, int) else f"{n:.4f}" for n in numbers
        )
        table.add_row(one.backend, *shown, f"{one.finding}: {one.why}")
    return table


def _loss(theirs: int, ours: int) -> float:
    return max(0, theirs - ours) / theirs * PER_CENT if theirs else 0.0
