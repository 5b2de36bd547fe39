"""One logical stream of server-sent events over several connections, told apart by their ids.

Each event of the gateway has ``id: <request>.<number>``. What comes twice is dropped, what is
missing or not numbered is not passed on. Pure; gateway/client.py does what it says. Needs nothing
but the standard library.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

LAST_EVENT_ID = "last-event-id"
RESUME_TOKEN = "x-resume-token"  # noqa: S105 -- a header's name
# Statuses of a try to go on after which another one may do better.
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
# Statuses that a token may be to blame for: it may have been spent by a try whose answer got lost.
MAYBE_THE_TOKEN = frozenset({400, 403, 404, 410})
_LINE_END = rb"(?:\r\n|\n|\r)"
# Not after a lone CR at the very end: an LF may follow that belongs to it.
_EVENT = re.compile(rb"(.*?)(?:\r\n|\n|\r(?!\n|\Z))(?:\r\n|\n|\r(?!\Z)|\r\Z)", re.DOTALL)
_LINES = re.compile(_LINE_END)
_DONE = b"[DONE]"


class Mode(Enum):
    """How far a stream is."""

    RUNNING = auto()
    COMPLETE = auto()
    SHUT_DOWN = auto()
    BROKEN = auto()


@dataclass(frozen=True)
class Fields:
    """What of an event matters here."""

    request: str | None
    number: int
    data: bytes | None

    @classmethod
    def of(cls, event: bytes) -> "Fields":
        """Read an event's lines."""
        request, number, data = None, 0, []
        for line in _LINES.split(event):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"id":
                before, dot, digits = value.decode("utf-8", errors="replace").rpartition(".")
                if dot and digits.isascii() and digits.isdecimal() and len(digits) < 16:  # noqa: PLR2004
                    request, number = before, int(digits)
        return cls(request, number, b"\n".join(data) if data else None)


class Splice:
    """Bytes of one connection after another in, whole events out.

    Invariant: the numbers of the events that are given out have no gap and come once, whatever the
    connections bring; nothing is given out after the end. A server that numbers nothing is passed
    on as it is, and never gone on with.
    """

    def __init__(self) -> None:
        self.request: str | None = None
        self.number = 0
        self.token: str | None = None
        self.mode = Mode.RUNNING
        self.why = ""
        self.moved = False
        self._legs = 0
        self._rest = b""

    @property
    def last_event_id(self) -> str:
        """The id of the last event that came."""
        return f"{self.request}.{self.number}"

    @property
    def can_go_on(self) -> bool:
        """Whether another connection may bring the rest."""
        return self.request is not None and self.mode in (Mode.RUNNING, Mode.SHUT_DOWN)

    def headers(self) -> Mapping[str, str]:
        """The headers that ask for the rest."""
        asked = {LAST_EVENT_ID: self.last_event_id}
        if self.token is not None:
            asked[RESUME_TOKEN] = self.token
        return asked

    def begin(self) -> None:
        """Begin with the next connection; what the last one left unfinished is dropped."""
        self._legs += 1
        self._rest = b""
        self.moved = False
        self.mode = Mode.RUNNING

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and return the whole events that are new."""
        if self.mode is not Mode.RUNNING:
            return b""
        text = self._rest + data
        given, at = [], 0
        while self.mode is Mode.RUNNING and (found := _EVENT.match(text, at)):
            at = found.end()
            if self._passes(found.group(1)):
                given.append(found.group(0))
        self._rest = text[at:]
        return b"".join(given)

    def rest(self) -> bytes:
        """Return what has no end, of a server that numbers nothing."""
        return self._rest if self.request is None else b""

    def _passes(self, event: bytes) -> bool:
        fields = Fields.of(event)
        if fields.data is None and fields.request is None:
            return True  # a comment
        if fields.request is None:
            if self._legs:
                return self._break("the server that was asked to go on numbers nothing")
            self._look(fields.data)
            return self.mode is not Mode.SHUT_DOWN
        if self.request is None:
            self.request, self.number = fields.request, fields.number - 1
        if fields.request != self.request:
            return self._break(f"events of another request came: {fields.request!r}")
        if fields.number <= self.number:
            return False
        if fields.number > self.number + 1:
            return self._break(f"event {fields.number} came after event {self.number}")
        self.number = fields.number
        self.moved = True
        self.token = None
        self._look(fields.data)
        return self.mode is not Mode.SHUT_DOWN

    def _look(self, data: bytes | None) -> None:
        """Look whether an event is the stream's end."""
        if data is None:
            return
        if data == _DONE:
            self.mode = Mode.COMPLETE
        elif b'"error"' in data or b'"shutdown"' in data:
            said = _object(data)
            token = said.get("resumeToken")
            if said.get("type") == "shutdown" and isinstance(token, str):
                self.mode, self.token = Mode.SHUT_DOWN, token
                self.why = f"the gateway said: {said.get('reason')}"
            elif "error" in said:
                self.mode = Mode.COMPLETE  # for the caller to see

    def _break(self, why: str) -> bool:
        self.mode, self.why = Mode.BROKEN, why
        return False


def _object(data: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
