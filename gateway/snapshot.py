"""What another gateway needs to go on with an answer, in plain values that JSON can hold."""

from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from gateway.outlet import UNSURE, Detail

# Connections that break lose the last events; who loses all of them again and again does not.
MOST_AGAIN = 1000
MOST_TIMES_AGAIN = 4


class Snapshot(TypedDict):
    """One answer, with the mark of each of its events and the details of the last ones.

    ``detailed``: it can go on only from an event that has one; see gateway.outlet.Detail.
    ``again``: how many tokens were generated again, and not charged, since it was asked for.
    """

    route: str
    body: dict[str, object]
    forbidden: bool
    request_id: str
    created: int
    identity: str
    prompt_ids: list[int]
    delivered: list[int]
    prompt_tokens: int
    marks: list[int]
    details: list[tuple[int, str, str, int, str | None]]
    detailed: bool
    opened: list[int]
    spoke: bool
    never: str
    reasoned: bool
    again: NotRequired[int]


@dataclass
class Later:
    """What was given after a snapshot. ``marks``: counted from its tokens on, None for UNSURE."""

    ids: list[int] = field(default_factory=list)
    marks: list[int | None] = field(default_factory=list)
    details: list[tuple[int, str, str, int, str | None]] = field(default_factory=list)


def with_later(snapshot: Snapshot, later: Later) -> Snapshot:
    """Return the snapshot as it would be now."""
    before = len(snapshot["delivered"])
    marks = [UNSURE if mark is None else before + mark for mark in later.marks]
    now = snapshot.copy()
    now["delivered"] = [*snapshot["delivered"], *later.ids]
    now["marks"] = [*snapshot["marks"], *marks]
    now["details"] = [*snapshot["details"], *later.details]
    now["spoke"] = snapshot["spoke"] or bool(later.ids)
    return now


class NotAPlaceError(Exception):
    """The answer cannot go on after an event; one sentence. ``known``: there was such an event."""

    def __init__(self, why: str, *, known: bool) -> None:
        super().__init__(why)
        self.why = why
        self.known = known


def again_at(snapshot: Snapshot, mark: int) -> int:
    """Return how many tokens will have been generated again where it goes on from a mark.

    A client is not charged for what it did not get, but what it says of that is bounded. Raises
    NotAPlaceError.
    """
    delivered, before = len(snapshot["delivered"]), snapshot.get("again", 0)
    again = before + delivered - mark
    if again > max(MOST_AGAIN, MOST_TIMES_AGAIN * delivered):
        raise NotAPlaceError(f"{before} tokens of it were generated again already", known=True)
    return again


def place_at(snapshot: Snapshot, at: int) -> tuple[int, list[Detail]]:
    """Return how many tokens the client has after an event, and the details up to it.

    There are none where the event has none. Raises NotAPlaceError.
    """
    marks = snapshot["marks"]
    if at > len(marks):
        raise NotAPlaceError(f"there was no event {at}, only {len(marks)}", known=False)
    mark = marks[at - 1] if at else 0
    if mark == UNSURE:
        raise NotAPlaceError(f"event {at} may end within a character", known=True)
    details = [Detail(*one) for one in snapshot["details"] if one[0] <= at]
    if not details or details[-1].number != at:
        details = []
    if at and snapshot["detailed"] and not details:
        raise NotAPlaceError(f"event {at} is too long ago", known=True)
    return mark, details
