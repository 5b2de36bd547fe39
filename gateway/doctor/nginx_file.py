"""nginx's configuration as a tree, by F5's own parser (crossplane), with its includes.

An include is looked for among the files that were given, by its path; what was not given is not
read. ``/etc/nginx/`` stands for the folder of the file that includes, as it does on a server.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

import crossplane

from fleet.finding import UnreadableError

MOST_LEVELS = 30
MOST_DIRECTIVES = 20_000
MOST_INCLUDES = 500
MOST_INCLUDE_LEVELS = 10
PREFIXES = ("/etc/nginx/", "/usr/local/nginx/conf/", "/usr/local/etc/nginx/")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "": 1.0}
TIME = re.compile(r"(?:[0-9]{1,9}(?:ms|[smhdw]))*(?:[0-9]{1,9})?")
# What stands in these says nothing about proxies.
HARMLESS = re.compile(r"(?:^|/)(?:mime\.types|fastcgi|uwsgi_params|scgi_params|modules|koi-)")


@dataclass(frozen=True)
class Directive:
    """One directive; ``block`` is what stands between its braces, None where it has none."""

    file: str
    line: int
    name: str
    args: tuple[str, ...]
    block: "tuple[Directive, ...] | None" = None

    @property
    def inner(self) -> "tuple[Directive, ...]":
        """What stands in its block, nothing where it has none."""
        return self.block or ()


def parsed(file: str, text: str) -> tuple[Directive, ...]:
    """The directives of a file, includes as they stand. Raises UnreadableError."""
    # Each ends with one of these; parsing takes 0.1 ms for each.
    if text.count(";") + text.count("{") > MOST_DIRECTIVES:
        raise UnreadableError(f"has more than {MOST_DIRECTIVES} directives")
    # crossplane reads files by their names only.
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as copy:
        copy.write(text)
        copy.flush()
        told = crossplane.parse(
            copy.name, single=True, check_ctx=False, check_args=False, onerror=_sentence
        )
    for error in told["errors"]:
        raise UnreadableError(f"is not nginx's configuration: {error['callback']}", error["line"])
    return tuple(_directives(file, told["config"][0]["parsed"], 0))


def _sentence(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(getattr(error, "strerror", None) or "it ends amid a directive")


def _directives(file: str, block: Sequence[Mapping[str, Any]], level: int) -> Iterator[Directive]:
    if level > MOST_LEVELS:
        raise UnreadableError(f"is nested more than {MOST_LEVELS} levels deep")
    for each in block:
        inner = each.get("block")
        yield Directive(
            file,
            int(each["line"]),
            str(each["directive"]),
            tuple(map(str, each["args"])),
            None if inner is None else tuple(_directives(file, inner, level + 1)),
        )


@dataclass(frozen=True)
class NginxFile:
    """A file of nginx's configuration; ``path`` is absolute."""

    file: str
    path: PurePath
    directives: tuple[Directive, ...]


class Including:
    """Puts in place of each include what it includes of ``files``; bounded, whatever they say."""

    def __init__(self, files: Sequence[NginxFile]) -> None:
        self._files = files
        self._left = MOST_INCLUDES
        self.included: set[PurePath] = set()
        self.missing: set[Directive] = set()

    def whole(self, root: NginxFile) -> tuple[Directive, ...]:
        """A file with all that it includes."""
        return tuple(self._put(root.directives, root, 0))

    def _put(self, block: Sequence[Directive], root: NginxFile, level: int) -> Iterator[Directive]:
        for each in block:
            if each.name == "include" and each.args and each.block is None:
                yield from self._include(each, root, level)
            elif each.block is not None:
                yield replace(each, block=tuple(self._put(each.block, root, level)))
            else:
                yield each

    def _include(self, include: Directive, root: NginxFile, level: int) -> Iterator[Directive]:
        if level >= MOST_INCLUDE_LEVELS:
            return
        self._left -= 1
        if self._left < 0:
            return
        found = [each for each in self._files if _matches(include.args[0], root, each)]
        if not found and not HARMLESS.search(include.args[0]):
            self.missing.add(include)
        for each in found:
            self._left -= 1
            if self._left < 0:
                return
            self.included.add(each.path)
            yield from self._put(each.directives, root, level + 1)


def _matches(pattern: str, root: NginxFile, other: NginxFile) -> bool:
    if other.path == root.path:
        return False
    for prefix in PREFIXES:
        pattern = pattern.removeprefix(prefix)
    absolute = pattern if pattern.startswith("/") else str(Path(root.path.parent, pattern))
    # As a shell has it, `*` ends at a slash; the names of a path are compared one by one.
    names, wanted = other.path.parts, PurePath(absolute).parts
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))


def nginx_seconds(text: str) -> float | None:
    """Seconds of a time such as 60, 60s, 1m30s or 500ms; None for what is none."""
    if not text or len(text) > 40 or not TIME.fullmatch(text):  # noqa: PLR2004
        return None
    parts = re.findall(r"([0-9]+)(ms|[smhdw]?)", text)
    return sum(int(number) * UNITS[unit] for number, unit in parts)
