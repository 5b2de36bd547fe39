"""Reads the files of the command line, and those below its folders; within bounds."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from fleet.strict_yaml import YamlError
from remediator.lint.source import Kind, Source, may_be_known

STDIN = "-"
MOST_BYTES = 2 * 1024 * 1024
MOST_FILES = 10_000
# Folders in which nobody keeps what is deployed; those with a dot in front neither.
PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages"})


@dataclass
class Gathered:
    """What was read, and what was not; a problem is one sentence with its place."""

    sources: list[Source] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unknown_named: list[str] = field(default_factory=list)
    unknown_found: int = 0


class _UnreadableError(Exception):
    """One sentence about a file."""


def gather(names: Sequence[str]) -> Gathered:
    """Read what these files and folders hold; what cannot be read does not stop the rest."""
    gathered = Gathered()
    for name in names:
        path = Path(name)
        if name != STDIN and path.is_dir():
            _gather_folder(path, gathered)
        else:
            _gather_file(name, path, gathered, named=True)
    return gathered


def _gather_folder(folder: Path, gathered: Gathered) -> None:
    for number, path in enumerate(_below(folder, gathered)):
        if number == MOST_FILES:
            gathered.problems.append(
                f"{folder}: has more than {MOST_FILES} files; the rest is not looked at"
            )
            return
        if may_be_known(path):
            _gather_file(str(path), path, gathered, named=False)
        else:
            gathered.unknown_found += 1


def _below(folder: Path, gathered: Gathered) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        gathered.problems.append(f"{error.filename}: {error.strerror}")

    for parent, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(
            each for each in folders if not each.startswith(".") and each not in PASSED_OVER
        )
        yield from (Path(parent, name) for name in sorted(files))


def _gather_file(name: str, path: Path, gathered: Gathered, *, named: bool) -> None:
    try:
        text = _text(name, path)
        source = Source.of(name, PurePath(os.path.abspath(path)), text)  # noqa: PTH100 -- no links
    except _UnreadableError as error:
        gathered.problems.append(f"{name}: {error}")
    except YamlError as error:
        hint = (
            "; it is a template: render it first, `helm template CHART | vllm-remediator lint -`"
            if "{{" in text
            else ""
        )
        gathered.problems.append(f"{name}{error.where}: {error}{hint}")
    else:
        if source.kind is not Kind.UNKNOWN:
            gathered.sources.append(source)
        elif named:
            gathered.unknown_named.append(name)
        else:
            gathered.unknown_found += 1


def _text(name: str, path: Path) -> str:
    """What a regular file says. Raises _UnreadableError."""
    try:
        if name == STDIN:
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            if not stat.S_ISREG(path.stat().st_mode):
                raise _UnreadableError("is not a regular file")
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _UnreadableError(error.strerror or "cannot be read") from None
    except ValueError:
        raise _UnreadableError("is not a file's name") from None
    if len(content) > MOST_BYTES:
        raise _UnreadableError(f"is larger than {MOST_BYTES} bytes")
    if b"\0" in content:
        raise _UnreadableError("is not text: it has a NUL byte")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _UnreadableError(f"is not UTF-8 text (byte {error.start})") from None
