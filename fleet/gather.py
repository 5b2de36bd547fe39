"""Reads the files of a command line, and those below its folders; within bounds."""

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Generic, TypeVar

from fleet.finding import UnreadableError
from fleet.strict_yaml import YamlError

STDIN = "-"
MOST_BYTES = 2 * 1024 * 1024
MOST_FILES = 10_000
# Folders in which nobody keeps what is deployed; those with a dot in front neither.
PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages"})


Source = TypeVar("Source")


@dataclass(frozen=True)
class Known(Generic[Source]):
    """What a command knows: ``source`` gives nothing where a text is of no kind it knows.

    It may raise YamlError and UnreadableError. ``may_be_known`` tells by its name whether a file in
    a folder is worth reading; ``command`` is
    how it is called.
    """

    command: str
    may_be_known: Callable[[PurePath], bool]
    source: Callable[[str, PurePath, str], Source | None]


@dataclass
class Gathered(Generic[Source]):
    """What was read, and what was not; a problem is one sentence with its place."""

    sources: list[Source] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unknown_named: list[str] = field(default_factory=list)
    unknown_found: int = 0


def gather(names: Sequence[str], known: Known[Source]) -> Gathered[Source]:
    """Read what these files and folders hold; what cannot be read does not stop the rest."""
    gathered: Gathered[Source] = Gathered()
    for name in names:
        path = Path(name)
        if name != STDIN and path.is_dir():
            _gather_folder(path, known, gathered)
        else:
            _gather_file(name, path, known, gathered, named=True)
    return gathered


def _gather_folder(folder: Path, known: Known[Source], gathered: Gathered[Source]) -> None:
    for number, path in enumerate(_below(folder, gathered)):
        if number == MOST_FILES:
            gathered.problems.append(
                f"{folder}: has more than {MOST_FILES} files; the rest is not looked at"
            )
            return
        if known.may_be_known(path):
            _gather_file(str(path), path, known, gathered, named=False)
        else:
            gathered.unknown_found += 1


def _below(folder: Path, gathered: Gathered[Source]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        gathered.problems.append(f"{error.filename}: {error.strerror}")

    for parent, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(
            each for each in folders if not each.startswith(".") and each not in PASSED_OVER
        )
        yield from (Path(parent, name) for name in sorted(files))


def _gather_file(
    name: str, path: Path, known: Known[Source], gathered: Gathered[Source], *, named: bool
) -> None:
    try:
        text = text_of(name, path)
        source = known.source(name, PurePath(os.path.abspath(path)), text)  # noqa: PTH100 -- no links
    except UnreadableError as error:
        gathered.problems.append(f"{name}{error.where}: {error}")
    except YamlError as error:
        hint = (
            f"; it is a template: render it first, `helm template CHART | {known.command} -`"
            if "{{" in text
            else ""
        )
        gathered.problems.append(f"{name}{error.where}: {error}{hint}")
    else:
        if source is not None:
            gathered.sources.append(source)
        elif named:
            gathered.unknown_named.append(name)
        else:
            gathered.unknown_found += 1


def text_of(name: str, path: Path) -> str:
    """What a regular file says. Raises UnreadableError."""
    try:
        if name == STDIN:
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            if not stat.S_ISREG(path.stat().st_mode):
                raise UnreadableError("is not a regular file")
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableError(error.strerror or "cannot be read") from None
    except ValueError:
        raise UnreadableError("is not a file's name") from None
    if len(content) > MOST_BYTES:
        raise UnreadableError(f"is larger than {MOST_BYTES} bytes")
    if b"\0" in content:
        raise UnreadableError("is not text: it has a NUL byte")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 text (byte {error.start})") from None
