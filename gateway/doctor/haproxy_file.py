"""HAProxy's configuration: sections, and what each has by its defaults.

A section begins with one of a few words at the start of a line; a proxy has what the `defaults`
section before it says, or the one that it names by `from` (HAProxy's Configuration Manual, 2 and
4). A time without a unit is in milliseconds.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from fleet.finding import UnreadableError

SECTION = re.compile(
    r"[ \t]*(global|defaults|frontend|backend|listen|peers|resolvers|userlist|mailers|cache"
    r"|program|http-errors|ring|log-forward|fcgi-app|crt-store|traces|acme)(?:[ \t]|$)"
)
UNITS = {"us": 1e-6, "ms": 0.001, "": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_LINE = 10_000
MOST_LINES = 20_000
MOST_INHERITED = 200


@dataclass(frozen=True)
class Line:
    """A line's words; ``number`` counts from 1."""

    number: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A section; ``lines`` are its own, ``inherited`` those of its defaults."""

    kind: str
    name: str
    number: int
    lines: tuple[Line, ...]
    inherited: tuple[Line, ...] = ()

    def all(self, *start: str) -> tuple[Line, ...]:
        """Its own lines that begin with these words, after those that it inherits."""
        both = (*self.inherited, *self.lines)
        return tuple(line for line in both if line.words[: len(start)] == start)

    @property
    def servers(self) -> tuple[Line, ...]:
        """The lines of its servers, which no defaults have."""
        return tuple(line for line in self.lines if line.words[0] in ("server", "server-template"))

    def last(self, *start: str) -> Line | None:
        """The one of them that counts."""
        found = self.all(*start)
        return found[-1] if found else None

    def option(self, name: str) -> Line | None:
        """The line that sets an option, unless a later one takes it back."""
        on, off = self.last("option", name), self.last("no", "option", name)
        own_off = off is not None and off in self.lines
        return None if on is None or (own_off and on not in self.lines) else on


def sections(text: str) -> tuple[Section, ...]:
    """The sections of a file, with their defaults. Raises UnreadableError."""
    if text.count("\n") > MOST_LINES:
        raise UnreadableError(f"has more than {MOST_LINES} lines")
    found: list[Section] = []
    unnamed: tuple[Line, ...] = ()
    named: dict[str, tuple[Line, ...]] = {}
    for head, lines in _parts(text):
        kind = head.words[0]
        name = head.words[1] if len(head.words) > 1 else ""
        origin = head.words[head.words.index("from") + 1 :][:1] if "from" in head.words else ()
        inherited = named.get(origin[0], ()) if origin else unnamed
        if kind == "defaults":
            # One defaults section inherits from another only by `from`.
            unnamed = (*(inherited if origin else ()), *lines)
            named[name] = unnamed
            if len(unnamed) > MOST_INHERITED:
                raise UnreadableError(
                    f"has more than {MOST_INHERITED} lines of defaults", head.number
                )
        if kind not in ("frontend", "backend", "listen"):
            inherited = ()
        found.append(Section(kind, name, head.number, lines, inherited))
    return tuple(found)


def _parts(text: str) -> Iterator[tuple[Line, tuple[Line, ...]]]:
    head: Line | None = None
    lines: list[Line] = []
    for number, raw in enumerate(text.split("\n"), 1):
        words = _words(raw[:MOST_LINE])
        if not words:
            continue
        if SECTION.match(raw):
            if head:
                yield head, tuple(lines)
            head, lines = Line(number, words), []
        elif head:
            lines.append(Line(number, words))
    if head:
        yield head, tuple(lines)


def _words(raw: str) -> tuple[str, ...]:
    if not re.search(r"[\\'\"]", raw):
        return tuple(raw.partition("#")[0].split())
    try:
        return tuple(shlex.split(raw, comments=True))
    except ValueError:
        return tuple(raw.partition("#")[0].split())


def haproxy_seconds(text: str) -> float | None:
    """Seconds of a time such as 30s, 5m or 30000, which are milliseconds; None for none."""
    match = re.fullmatch(r"([0-9]{1,12})(us|ms|s|m|h|d|)", text)
    return int(match[1]) * UNITS[match[2]] if match else None
