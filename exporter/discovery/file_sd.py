"""Reads file_sd files; one that is bad or cannot be read keeps what it said last."""

import fnmatch
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.discovery.groups import GroupsError, targets_in
from exporter.discovery.target import Finding, Target
from fleet.discovery import Files

MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Known:
    """What a file held when it was last good, and the targets in it."""

    text: str
    targets: tuple[Target, ...]


class FileSD:
    """The files of one source.

    Every look reads them all, as they are small: what changed is then seen whatever its time of
    change says, also behind the links of a ConfigMap. A file that is gone has no targets any more.
    """

    def __init__(self, files: Files, known: Mapping[Any, Any] | None = None) -> None:
        """``known``: what predecessors knew of their files, or names."""
        self._files = files
        self._known: dict[Path, Known] = {
            path: held
            for path, held in (known or {}).items()
            if any(_matches(path, pattern) for pattern in files.paths)
        }

    @property
    def known(self) -> Mapping[Any, Any]:
        """What to hand on to a successor."""
        return self._known

    def so_far(self) -> tuple[Target, ...]:
        """The targets of all files as last read."""
        return tuple(target for known in self._known.values() for target in known.targets)

    def look(self) -> Finding:
        """Read all files."""
        failures: list[str] = []
        notes: list[str] = []
        seen: dict[Path, Known] = {}
        for pattern in self._files.paths:
            try:
                paths = _matching(pattern)
            except OSError as error:
                failures.append(f"{pattern.parent}: cannot be read: {error.strerror}")
                seen |= {p: held for p, held in self._known.items() if _matches(p, pattern)}
                continue
            for path in paths:
                known = self._known.get(path)
                try:
                    known = _read(path, known)
                except FileNotFoundError:
                    if "*" not in pattern.name:
                        notes.append(f"{path}: there is no such file")
                    continue
                except _BadFileError as error:
                    failures.append(f"{path}{error}")
                if known is not None:
                    seen[path] = known
        self._known = seen
        return Finding(self.so_far(), tuple(dict.fromkeys(failures)), tuple(notes))


class _BadFileError(Exception):
    """A file's mistake as a sentence, to be put behind its name."""


def _matching(pattern: Path) -> list[Path]:
    """The files of a pattern, by name. Raises OSError where the folder is not there or not ours."""
    if "*" not in pattern.name:
        pattern.parent.stat()
        return [pattern]
    names = os.listdir(pattern.parent)  # noqa: PTH208 -- names are wanted
    paths = (pattern.with_name(name) for name in sorted(names))
    return [path for path in paths if _matches(path, pattern)]


def _matches(path: object, pattern: Path) -> bool:
    """Whether a path is meant by a pattern, in which nothing but ``*`` is special."""
    if not isinstance(path, Path) or path.parent != pattern.parent:
        return False
    return fnmatch.fnmatchcase(path.name, re.sub(r"[?\[]", r"[\g<0>]", pattern.name))


def _read(path: Path, known: Known | None) -> Known:
    """What the file holds; ``known`` itself if it is still that.

    Raises FileNotFoundError, and _BadFileError for all else that is wrong.
    """
    try:
        if path.exists() and not path.is_file():
            raise _BadFileError(": is not a file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _BadFileError(f": cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _BadFileError(": cannot be read: is not UTF-8 text") from None
    if len(content) > MAX_BYTES:
        raise _BadFileError(f": holds more than {MAX_BYTES} bytes")
    if known is not None and known.text == text:
        return known
    try:
        return Known(text, targets_in(text, is_json=path.suffix.lower() == ".json"))
    except GroupsError as error:
        raise _BadFileError(str(error)) from None
