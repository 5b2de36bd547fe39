"""Counts the tokens of an answer that is relayed as it is, before its bytes are sent.

A whole answer states its usage, near its end as a rule. A stream states it in its last event; until
then each event with a piece of the answer (vLLM sends one a token) stands for one token, or for as
many as it has log probabilities of. The longer of both counts: what was sent is never free.
"""

import json
from collections.abc import Mapping

from gateway.bill import bounded
from gateway.members import LONGEST, Members, Path

# After one of these a stream of /v1/responses has told everything.
LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
USAGES: tuple[Path, ...] = (("usage",), ("response", "usage"))
OF_EVENTS: tuple[Path, ...] = (("type",), ("delta",), ("logprobs",), *USAGES)


class Tally:
    """Takes an answer piece by piece; this one is of an answer that says nothing of tokens.

    ``prompt_tokens`` and ``tokens``, of the output: those known so far; they only grow.
    ``is_told``: the answer has stated its usage. ``is_whole``: nothing is missing as far as it
    tells. ``is_between``: it is a stream of events, and none of them has begun.
    """

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.tokens = 0
        self.is_told = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing as far as the answer tells."""
        return True

    @property
    def is_between(self) -> bool:
        """Whether it is a stream of events, and none of them has begun."""
        return False

    def add(self, data: bytes) -> None:
        """Take a piece of the answer, before it is sent."""

    def _states(self, found: Mapping[Path, object]) -> None:
        for path in USAGES:
            usage = found.get(path)
            if isinstance(usage, dict):
                self.is_told = True
                prompt = _count(usage, "prompt_tokens", "input_tokens")
                output = _count(usage, "completion_tokens", "output_tokens")
                self.prompt_tokens = max(self.prompt_tokens, prompt)
                self.tokens = max(self.tokens, output)


class WholeTally(Tally):
    """Of one JSON object."""

    def __init__(self) -> None:
        super().__init__()
        self._members = Members(USAGES)

    def add(self, data: bytes) -> None:
        """Take a piece."""
        self._members.feed(data)
        self._states(self._members.found)


class EventsTally(Tally):
    """Of a stream of events. Lines end with LF, CRLF or CR, events with an empty line.

    Invariant: what it knows at an event's end does not depend on how the stream was cut into
    pieces.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_whole = False
        self._is_between = True
        self._line = b""  # a line's beginning, which does not tell its field yet
        self._is_data: bool | None = None  # what field the line is that has begun
        self._data = bytearray()
        self._members: Members | None = None  # of an event too long to be kept
        self._after_cr = False

    @property
    def is_whole(self) -> bool:
        """Whether its last event has come."""
        return self._is_whole

    @property
    def is_between(self) -> bool:
        """Whether no event has begun."""
        return self._is_between

    def add(self, data: bytes) -> None:
        """Take a piece."""
        if self._after_cr:  # the LF of a line end whose CR has come
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        for line in data.splitlines(keepends=True):
            text = line.rstrip(b"\r\n")
            self._text(text, ended=len(text) < len(line))

    def _text(self, text: bytes, *, ended: bool) -> None:
        """Take a line, or a part of one."""
        if self._is_data is None:
            text = self._line + text
            if len(text) < len(_FIELD) and not ended:
                self._line, self._is_between = text, False
                return
            self._line = b""
            self._is_between = not text
            self._is_data = text.startswith(_FIELD)
            text = text.removeprefix(_FIELD)
            if self._is_between:
                self._event()
        if self._is_data:
            self._keep(text)
        if ended:
            self._is_data = None

    def _keep(self, text: bytes) -> None:
        if self._members is None:
            self._data += text
            if len(self._data) <= LONGEST:
                return
            self._members, text = Members(OF_EVENTS), bytes(self._data)
        self._members.feed(text)

    def _event(self) -> None:
        found = self._members.found if self._members else _members_of(self._data)
        self._data.clear()
        self._members = None
        kind = found.get(("type",))
        if not isinstance(kind, str):
            kind = ""
        if kind.endswith(".delta"):
            logprobs = found.get(("logprobs",))
            if isinstance(logprobs, list) and logprobs:
                self.tokens += len(logprobs)
            elif found.get(("delta",)):
                self.tokens += 1
        self._is_whole = self._is_whole or kind in LAST
        self._states(found)


def tally_for(content_type: str) -> Tally:
    """What counts an answer of this type: what it is decides, not what was asked for."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return EventsTally()
    return WholeTally() if kind.endswith("json") or not kind else Tally()


_FIELD = b"data:"


def _members_of(data: bytes | bytearray) -> Mapping[Path, object]:
    try:
        value = json.loads(data) if data else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    response = value.get("response")
    found: dict[Path, object] = {path: value.get(path[0]) for path in OF_EVENTS}
    usage = response.get("usage") if isinstance(response, dict) else None
    return found | {("response", "usage"): usage}


def _count(usage: Mapping[str, object], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int):
            return bounded(value)
    return 0
