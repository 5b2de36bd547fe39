"""What goes to the client: events, numbered without a gap, and the token ids they stand for."""

from collections.abc import Sequence


class Outlet:
    """Collects one step's events. Invariant: the events' numbers are 1, 2, 3 and so on."""

    def __init__(self, request_id: str, seq: int = 0) -> None:
        self.seq = seq
        self._id = b"id: %s." % request_id.encode()
        self._events: list[bytes] = []
        self._ids: list[int] = []

    def event(self, frame: bytes) -> None:
        """Give an event, told by its lines."""
        self.seq += 1
        self._events.append(b"%s%d\n%s\n\n" % (self._id, self.seq, frame))

    def comment(self, lines: bytes) -> None:
        """Give what is no event."""
        self._events.append(lines + b"\n\n")

    def stands_for(self, ids: Sequence[int]) -> None:
        """Say which tokens the events given stand for."""
        self._ids += ids

    def take(self) -> tuple[bytes, list[int]]:
        """Return what was given since it was last taken."""
        events, ids = self._events, self._ids
        self._events, self._ids = [], []
        return events[0] if len(events) == 1 else b"".join(events), ids
