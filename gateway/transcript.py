"""What one client was given of an answer, so that it can be given the end of it once more. Pure."""

import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator

from gateway.snapshot import NotAPlaceError

MOST_BYTES = 512 * 1024  # packed; some 40,000 events of one token have these
# zlib's fastest, and no larger tables than so few bytes need, which would take as long again to
# clear: of events that are alike it makes a twentieth, in half a microsecond each.
_LEVEL, _WINDOW, _TABLES = 1, -zlib.MAX_WBITS, 5
_CHUNK = re.compile(rb"[0-9a-f]+\r\n(id: [!-~]+\n(?:[^\n]+\n)*\n)\r\n")


class Transcript:
    """The events of one answer behind the event ``before``.

    Invariant: what ``after`` gives is, byte for byte, what was given behind that event. ``last``:
    the number of the last event that is packed. ``size``: of what is packed, in bytes. ``add``:
    takes events in order, as they are or one as a chunk of HTTP/1.1; called for each token, so it
    is a list's own method, and chunks are made events again when somebody asks for them.
    """

    def __init__(self, request_id: str, before: int, most_bytes: int = MOST_BYTES) -> None:
        self.request_id = request_id
        self.last = before
        self.size = 0
        self._before = before
        self._most_bytes = most_bytes
        self._given: list[bytes] = []
        self._packed: deque[tuple[int, bytes]] = deque()  # each with its last event's number
        self.add: Callable[[bytes], None] = self._given.append

    def pack(self, last: int, *, least: int = 1) -> None:
        """Pack what was given, if that is ``least`` times; ``last``: the last event's number.

        Too much is less at its beginning.
        """
        if len(self._given) < least:
            return
        zipped = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _TABLES)
        packed = zipped.compress(b"".join(self._given)) + zipped.flush()
        self._given.clear()
        self._packed.append((last, packed))
        self.size += len(packed)
        self.last = last
        while self.size > self._most_bytes:
            self._before, dropped = self._packed.popleft()
            self.size -= len(dropped)

    def after(self, number: int) -> Iterator[bytes]:
        """Return what was packed behind an event, in pieces. Raises NotAPlaceError."""
        if number > self.last:
            raise NotAPlaceError(f"there was no event {number}, only {self.last}", known=False)
        if number < self._before:
            raise NotAPlaceError(f"event {number} is too long ago", known=True)
        return self._after(number)

    def _after(self, number: int) -> Iterator[bytes]:
        before = self._before
        for last, packed in tuple(self._packed):
            if last > number:
                piece = _CHUNK.sub(rb"\1", zlib.decompress(packed, _WINDOW))
                yield piece if before >= number else piece[self._place(piece, number + 1) :]
            before = last

    def _place(self, piece: bytes, number: int) -> int:
        """Where an event begins that is not the first: data has no empty lines, so it is found."""
        end = b"\n\n"
        return piece.index(b"%bid: %b.%d\n" % (end, self.request_id.encode(), number)) + len(end)
