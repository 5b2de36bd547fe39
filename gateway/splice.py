"""One logical stream of server-sent events over several connections, told apart by their ids.

Each event of the gateway has ``id: <request>.<number>``. What comes twice is dropped, what is
missing or not numbered is not passed on. Pure; gateway/client.py does what it says.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gateway.frames import Event, Events, EventTooLongError

LAST_EVENT_ID = "last-event-id"
RESUME_TOKEN = "x-resume-token"  # noqa: S105 -- a header's name
_ID = re.compile(rb"(?:^|[\r\n])id:[ ]?([^\r\n]*)\.([0-9]{1,15})(?=[\r\n]|$)")
_DONE = b"[DONE]"


class Mode(Enum):
    """How far a stream is. FOREIGN: its server numbers nothing, it is passed on as it is."""

    RUNNING = auto()
    FOREIGN = auto()
    COMPLETE = auto()
    SHUT_DOWN = auto()
    BROKEN = auto()


@dataclass(frozen=True)
class Said:
    """What a server's last words on a stream were."""

    resume_token: str | None
    reason: str
    is_error: bool

    @classmethod
    def of(cls, data: bytes) -> "Said":
        """Read an event's data."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            return cls(None, "", is_error=False)
        token = value.get("resumeToken") if value.get("type") == "shutdown" else None
        reason = str(value.get("reason") or "shutdown")
        return cls(token if isinstance(token, str) else None, reason, bool(value.get("error")))


class Splice:
    """Bytes of one connection after another in, whole events out.

    Invariant: the numbers of the events that are given out have no gap and come once, whatever the
    connections bring, and nothing is given out after the end.
    """

    def __init__(self) -> None:
        self.request: str | None = None
        self.number = 0
        self.token: str | None = None
        self.mode = Mode.RUNNING
        self.why = ""
        self.moved = False
        self._is_first = True
        self._events = Events()
        self._held = b""

    @property
    def can_go_on(self) -> bool:
        """Whether another connection may bring the rest."""
        return self.request is not None and self.mode is not Mode.COMPLETE

    @property
    def _is_foreign(self) -> bool:
        return self.mode is Mode.FOREIGN

    @property
    def last_event_id(self) -> str | None:
        """The id of the last event that came; None if none had one."""
        return None if self.request is None else f"{self.request}.{self.number}"

    def headers(self) -> Mapping[str, str]:
        """The headers that ask for the rest."""
        asked = {LAST_EVENT_ID: self.last_event_id, RESUME_TOKEN: self.token}
        return {name: value for name, value in asked.items() if value is not None}

    def begin(self) -> None:
        """Begin with the next connection; what the last one left unfinished is dropped."""
        self._is_first = False
        self._events = Events()
        self.moved = False
        self.mode = Mode.RUNNING

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and return the whole events that are new."""
        if self.mode is not Mode.RUNNING:
            return data if self.mode is Mode.FOREIGN else b""
        undecided = self._is_first and self.request is None
        if undecided:
            self._held += data
        try:
            raws = self._events.feed(data)
        except EventTooLongError as error:
            self._break(str(error))
            return b""
        given = self._all_that_pass(raws)
        if undecided and self.request is None:
            return self.rest() if self._is_foreign else b""  # comments alone so far
        self._held = b""
        return given

    def rest(self) -> bytes:
        """Return what was held until it was known whether the server numbers its events."""
        held, self._held = self._held, b""
        return held

    def _all_that_pass(self, raws: Sequence[bytes]) -> bytes:
        given = []
        for raw in raws:
            if self._passes(raw):
                given.append(raw + b"\n\n")
            if self.mode is not Mode.RUNNING:
                break
        return b"".join(given)

    def _passes(self, raw: bytes) -> bool:
        data = Event.from_bytes(raw).data
        found = _ID.search(raw)
        if found is None:
            return data is None or self._has_no_number()
        request, number = found.group(1).decode("utf-8", errors="replace"), int(found.group(2))
        if self.request is None:
            self.request, self.number = request, number - 1
        if request != self.request:
            return self._break(f"an event of another request came: {request!r}")
        if number > self.number + 1:
            return self._break(f"event {number} came after event {self.number}")
        return number > self.number and self._takes(number, data)

    def _has_no_number(self) -> bool:
        if self._is_first and self.request is None:
            self.mode = Mode.FOREIGN
            return True
        return self._break("an event without a number came")

    def _takes(self, number: int, data: bytes | None) -> bool:
        self.number = number
        self.token = None
        self._look(data or b"")
        self.moved = self.moved or self.mode is not Mode.SHUT_DOWN
        return self.mode is not Mode.SHUT_DOWN

    def _look(self, data: bytes) -> None:
        """Look whether an event is the end, of the stream or of this connection."""
        if data == _DONE:
            self.mode = Mode.COMPLETE
        elif b'"error"' in data or b'"shutdown"' in data:
            said = Said.of(data)
            if said.resume_token is not None:
                self.mode, self.token = Mode.SHUT_DOWN, said.resume_token
                self.why = f"the gateway ended it: {said.reason}"
            elif said.is_error:
                self.mode = Mode.COMPLETE  # for the caller to see

    def _break(self, why: str) -> bool:
        self.mode, self.why = Mode.BROKEN, why
        return False
