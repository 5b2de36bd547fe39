"""What goes to the client: events, numbered without a gap, and the tokens they stand for.

Each event has a mark: how many of the answer's tokens have their text in the events up to this
one. Whoever has the events up to there can be given the rest from there. UNSURE: the text ends
within a character, or it is not known where.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

UNSURE = -1
# A client is behind by what fits into the buffers between it and us.
MOST_DETAILS = 1024


class Detail(NamedTuple):
    """What a mark is not enough for; see Stops. ``text_end``: of log probabilities' offsets."""

    number: int
    tail: str
    held: str
    text_end: int
    finish_reason: str | None


class Given(NamedTuple):
    """What was given since it was last taken; ``marks`` and ``details`` are of its events."""

    out: bytes
    ids: Sequence[int]
    marks: Sequence[int]
    details: Sequence[Detail]


def behind(marks: Sequence[int], tokens: int) -> list[int]:
    """Return how many of the answer's tokens have no text yet in each of the events."""
    return [UNSURE if mark == UNSURE else tokens - mark for mark in marks]


class Outlet:
    """Collects one step's events. Invariant: the events' numbers are 1, 2, 3 and so on.

    ``detail`` tells an event's detail, where events need one.
    """

    def __init__(self, request_id: str) -> None:
        self.marks: list[int] = []
        self.mark = 0
        self.details: deque[Detail] = deque(maxlen=MOST_DETAILS)
        self.detail: Callable[[int], Detail] | None = None
        self.id = b"id: %s." % request_id.encode()
        self._events: list[bytes] = []
        self._ids: list[int] = []
        self._new_marks = 0
        self._new_details: list[Detail] = []

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return len(self.marks)

    def event(self, frame: bytes) -> None:
        """Give an event, told by its lines."""
        self.marks.append(self.mark)
        number = len(self.marks)
        self._new_marks += 1
        self._events.append(b"%s%d\n%s\n\n" % (self.id, number, frame))
        if self.detail is not None:
            detail = self.detail(number)
            self.details.append(detail)
            self._new_details.append(detail)

    def comment(self, lines: bytes) -> None:
        """Give what is no event."""
        self._events.append(lines + b"\n\n")

    def stands_for(self, ids: Sequence[int]) -> None:
        """Say which tokens the events given stand for."""
        self._ids += ids

    def take(self) -> Given:
        """Return what was given since it was last taken."""
        events, ids, details = self._events, self._ids, self._new_details
        marks = self.marks[len(self.marks) - self._new_marks :]
        self._events, self._ids, self._new_marks, self._new_details = [], [], 0, []
        return Given(events[0] if len(events) == 1 else b"".join(events), ids, marks, details)
