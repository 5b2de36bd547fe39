"""Bytes of a stream to its server-sent events, by the rules of the HTML standard.

Lines end with LF, CRLF or CR, events with an empty line; a byte order mark at the very start
does not count. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import re
from dataclasses import dataclass

LONGEST_EVENT = 16 * 1024 * 1024  # bytes; the ids of a prompt of a million tokens are half of it


class EventTooLongError(Exception):
    """An event is longer than may be kept."""


class Events:
    """Cuts a stream into events, each as it came but without its empty line.

    Invariant: the events do not depend on how the stream was cut into pieces, and each byte is
    looked at a bounded number of times. What the empty line has not ended is no event.
    """

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._looked = 0  # no empty line ends in front of this place of the rest
        self._began = False
        self._between = False  # an event begins with what comes next

    @property
    def is_between(self) -> bool:
        """Whether an event begins with what comes next."""
        return self._between

    def feed(self, data: bytes) -> list[bytes]:
        """Take a piece and return the events it ends. Raises EventTooLongError."""
        if self._between and b"\r" not in data and b"\n\n\n" not in data:
            events = data.split(b"\n\n")
            if rest := events.pop():
                self._keep(rest)
            if not data.startswith(b"\n"):
                return events
            return _full(events)
        return self._feed_slowly(data)

    def _feed_slowly(self, data: bytes) -> list[bytes]:
        rest = self._rest
        rest += data
        if not self._began:
            if _MARK.startswith(rest):
                if len(rest) < len(_MARK):
                    return []
                rest.clear()
            elif rest.startswith(_MARK):
                del rest[: len(_MARK)]
            self._began = True
        events = []
        start = 0
        end = _EMPTY_LINE.search(rest, self._looked)
        while end:
            events.append(bytes(rest[start : end.start()]))
            start = end.end()
            end = _EMPTY_LINE.search(rest, start)
        if start:
            del rest[:start]
        # An empty line may have begun: three of the at most four bytes of its two line ends.
        self._looked = self._line_start(max(0, len(rest) - 3))
        if len(rest) > self._longest:
            raise EventTooLongError(f"an event is longer than {self._longest} bytes")
        self._between = not rest
        return _full(events)

    def _line_start(self, place: int) -> int:
        """Not in the middle of a CRLF, whose LF would look like a line end of its own."""
        inside = place and self._rest[place - 1 : place + 1] == b"\r\n"
        return place - 1 if inside else place

    def _keep(self, rest: bytes) -> None:
        self._rest += rest
        self._between = False
        if len(rest) > self._longest:
            raise EventTooLongError(f"an event is longer than {self._longest} bytes")


@dataclass(frozen=True)
class Event:
    """One event's fields. ``data`` is None when it has no data line: nothing to act upon."""

    data: bytes | None
    name: bytes = b""
    comments: bool = False

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Event":
        """Read the lines of an event."""
        data: list[bytes] = []
        name = b""
        comments = False
        for line in _LINE_END.split(raw):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if line.startswith(b":"):
                comments = True
            elif field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
        return cls(b"\n".join(data) if data else None, name, comments)

    def line(self) -> bytes:
        """Return the event, the data on one line: JSON has line ends only where they are blank."""
        name = b"event: %s\n" % self.name if self.name else b""
        return name + b"data: " + (self.data or b"").replace(b"\n", b" ")


_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
# Each line end is taken whole: the two bytes of a CRLF are not two line ends.
_EMPTY_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")


def _full(events: list[bytes]) -> list[bytes]:
    """Leave out further empty lines, and the LF of a CRLF whose CR has ended the event before."""
    return [full for event in events if (full := event.lstrip(b"\r\n"))]
