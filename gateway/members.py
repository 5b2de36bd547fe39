"""A few members of a JSON object that comes in pieces, in memory that does not grow with it."""

import json
import re
from collections.abc import Collection
from enum import Enum

LONGEST = 64 * 1024  # bytes of a value or a name; a longer one is known by its being there

Path = tuple[str, ...]


class Long(Enum):
    """A value that is too long to be kept."""

    VALUE = "a long value"


class Members:
    """Finds the values at some paths, each of names of members within members.

    Whatever lies elsewhere (within lists, strings or other members) is never taken for one of
    them. ``found`` has what is there so far; of several of one name the last. What is no JSON
    object has no members; nothing is raised.

    Invariant: what is found does not depend on how the object was cut into pieces.
    """

    def __init__(self, wanted: Collection[Path]) -> None:
        self.found: dict[Path, object] = {}
        self._wanted = frozenset(wanted)
        self._on_the_way = {path[:i] for path in wanted for i in range(1, len(path))}
        self._begun = self._over = False
        self._path: Path = ()  # the members that it is in
        self._name: str | None = None  # of the member whose value comes next
        self._depth = 0  # of lists and objects that are passed over
        self._in_string = False
        self._held = b""  # a backslash that ended a piece
        self._kept = bytearray()
        self._keeps = False
        self._from = 0  # where in the piece that begins which is kept

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        if self._over:
            return
        data = self._held + piece
        self._held = b""
        self._from = at = 0
        if self._in_string:
            at = self._string(data, _REST_OF_STRING.match(data))
        while at < len(data) and not self._over:
            at = self._pass_over(data, at) if self._depth else self._step(data, at)
        if self._keeps:
            self._keep(data, len(data) - len(self._held))

    def _pass_over(self, data: bytes, at: int) -> int:
        """Go on to the end of what is passed over, or of the piece."""
        depth = self._depth
        for token in _DEEP.finditer(data, at):
            kind = token.lastindex
            if kind == _OPENS:
                depth += 1
            elif kind == _CLOSES:
                depth -= 1
                if not depth:
                    self._depth = 0
                    return token.end()
            elif kind == _STRING and not token[_STRING]:
                self._string(data, token)
        self._depth = depth
        return len(data)

    def _step(self, data: bytes, at: int) -> int:
        """Go on to the end of the next token."""
        token = _TOKEN.search(data, at)
        if token is None:
            return len(data)
        kind, end = token.lastindex, token.end()
        if not self._begun:
            self._begun, self._over = True, data[token.start()] != _BRACE
        elif kind == _STRING:
            if self._name is None:
                self._begin(token.start())
            self._string(data, token)
        elif kind == _COLON:
            self._named(data, end)
        elif kind == _OPENS:
            self._enter(data[token.start()])
        else:  # a comma, or the object's end: a value ends here
            self._value(data, token.start())
            if kind == _CLOSES:
                self._over = not self._path
                self._path = self._path[:-1]
        return end

    def _string(self, data: bytes, token: re.Match[bytes] | None) -> int:
        """Note whether a string has come to its end; return from where to go on."""
        if token is None or token[token.lastindex or 0]:
            self._in_string = False
            return 0 if token is None else token.end()
        self._in_string = True
        self._held = data[token.end() :]
        return len(data)

    def _named(self, data: bytes, end: int) -> None:
        if self._name is not None or not self._keeps:
            return
        name = _decoded(self._taken(data, end - 1))
        self._name = name if isinstance(name, str) else ""
        if (*self._path, self._name) in self._wanted:
            self._begin(end)

    def _enter(self, byte: int) -> None:
        path = (*self._path, self._name or "")
        if byte == _BRACE and path in self._on_the_way:
            self._path, self._name = path, None
        else:
            self._depth = 1

    def _value(self, data: bytes, end: int) -> None:
        if self._keeps and self._name is not None:
            self.found[*self._path, self._name] = _decoded(self._taken(data, end))
        self._name = None
        self._keeps = False

    # what is kept

    def _begin(self, at: int) -> None:
        self._keeps, self._from = True, at
        self._kept.clear()

    def _keep(self, data: bytes, end: int) -> None:
        if len(self._kept) <= LONGEST:
            self._kept += data[self._from : min(end, self._from + LONGEST + 1)]

    def _taken(self, data: bytes, end: int) -> bytes:
        self._keep(data, end)
        self._keeps = False
        return bytes(self._kept)


def _decoded(text: bytes) -> object:
    if len(text) > LONGEST:
        return Long.VALUE
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_OPENS, _CLOSES, _STRING, _COLON = 1, 2, 3, 4
_BRACE = ord("{")
# A string's group is empty where the string goes on in the next piece.
_INSIDE = rb'(?:[^"\\]++|\\.)*+("?)'
# What is passed over is most of it: a run of it is one step, at the end as well.
_DEEP = re.compile(rb'[^"{}\[\]]*+(?:([{\[])|([}\]])|"' + _INSIDE + rb"|\Z)", re.DOTALL)
_TOKEN = re.compile(rb'([{\[])|([}\]])|"' + _INSIDE + rb"|(:)|(,)", re.DOTALL)
_REST_OF_STRING = re.compile(_INSIDE, re.DOTALL)
