"""What one client was given of an answer, so that it can be given the end of it once more. Pure."""

import zlib
from collections import deque
from collections.abc import Iterator

from gateway.run import Run
from gateway.snapshot import NotAPlaceError

MOST_BYTES = 512 * 1024  # some 40,000 tokens
# Pieces that are packed together, and a run of so few events is one of them.
PACKED_AT = 64
SHORT_RUN = 16
LONG_RUN = 2048  # one that is longer is kept in parts, so that its beginning can go alone
# zlib's fastest, and no larger tables than so few bytes need, which would take as long again to
# clear: of events that are alike it makes a twentieth, in half a microsecond each.
_LEVEL, _WINDOW, _TABLES = 1, -zlib.MAX_WBITS, 5


class Transcript:
    """The events of one answer behind the event ``before``.

    Invariant: what ``after`` gives is, byte for byte, what was given behind that event. ``last``:
    the number of the last event that is packed. ``size``: of what is packed, in bytes.
    """

    def __init__(self, request_id: str, before: int, most_bytes: int = MOST_BYTES) -> None:
        self.request_id = request_id
        self.last = self._last_given = before
        self.size = 0
        self._before = before
        self._most_bytes = most_bytes
        self._given: list[bytes] = []
        # Each with its last event's number.
        self._packed: deque[tuple[int, bytes | Run]] = deque()

    def add(self, events: bytes, last: int) -> None:
        """Take whole events in their order. ``last``: the last one's number."""
        self._given.append(events)
        self._last_given = last
        if len(self._given) >= PACKED_AT:
            self.pack()

    def add_run(self, run: Run) -> None:
        """Take the events of a run in their order."""
        if run.last - run.first < SHORT_RUN:
            self.add(run.after(run.first - 1), run.last)
            return
        self.pack()
        for part in run.parts(LONG_RUN):
            self._keep(part, part.last, part.size)

    def pack(self) -> None:
        """Pack what was given."""
        if not self._given:
            return
        zipped = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _TABLES)
        packed = zipped.compress(b"".join(self._given)) + zipped.flush()
        self._given.clear()
        self._keep(packed, self._last_given, len(packed))

    def after(self, number: int) -> Iterator[bytes]:
        """Return what was packed behind an event, in pieces. Raises NotAPlaceError."""
        if number > self.last:
            raise NotAPlaceError(f"there was no event {number}, only {self.last}", known=False)
        if number < self._before:
            raise NotAPlaceError(f"event {number} is too long ago", known=True)
        return self._after(number)

    def _keep(self, piece: bytes | Run, last: int, size: int) -> None:
        """Keep a piece; where it is too much, there is less of the beginning."""
        self._packed.append((last, piece))
        self.size += size
        self.last = last
        while self.size > self._most_bytes:
            self._before, dropped = self._packed.popleft()
            self.size -= dropped.size if isinstance(dropped, Run) else len(dropped)

    def _after(self, number: int) -> Iterator[bytes]:
        before = self._before
        for last, packed in tuple(self._packed):
            if last > number:
                if isinstance(packed, Run):
                    yield packed.after(number)
                else:
                    piece = zlib.decompress(packed, _WINDOW)
                    yield piece if before >= number else piece[self._place(piece, number + 1) :]
            before = last

    def _place(self, piece: bytes, number: int) -> int:
        """Where an event begins that is not the first: data has no empty lines, so it is found."""
        end = b"\n\n"
        return piece.index(b"%bid: %b.%d\n" % (end, self.request_id.encode(), number)) + len(end)
