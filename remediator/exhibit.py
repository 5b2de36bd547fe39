"""The evidence of one attempt as files in a folder: what they are called, and how one reads them.

What was saved came from servers and programs: it is shown as text that controls no terminal.
Nothing but a plain file that stands in the folder itself is ever opened.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from remediator.process import printable

ABOUT = "about.json"
HEALTH = "health.txt"
METRICS = ("metrics-1.prom", "metrics-2.prom")
MODELS = "models.json"
VERSION = "version.json"
# In the order in which a person reads them.
PAGES = (HEALTH, *METRICS, MODELS, VERSION)
LONGEST_PROGRAM = 40
MOST_BYTES = 1024 * 1024 + 4096

FOLDER = re.compile(r"[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9][A-Za-z0-9_.-]{0,62}-[0-9]{1,20}", re.ASCII)
COMMAND = re.compile(r"command-[0-9]{1,6}(?:-[A-Za-z0-9_.-]{1,40})?\.txt", re.ASCII)


class NoExhibitError(Exception):
    """There is no such evidence, or it cannot be read; the text is one sentence."""


@dataclass(frozen=True)
class Exhibit:
    """One file; ``size`` is in bytes."""

    name: str
    size: int


def folder_name(now: datetime, backend: str, attempt_id: int) -> str:
    """What the folder of an attempt is called; sorted by name they are sorted by time."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{backend}-{attempt_id}"


def command_name(number: int, program: str) -> str:
    """What the file of the ``number``-th command is called, which runs ``program``."""
    last = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(program).name)[:LONGEST_PROGRAM]
    return f"command-{number}-{last}.txt" if last else f"command-{number}.txt"


def is_folder_of_evidence(name: str) -> bool:
    """Whether a folder of this name is one of an attempt."""
    return FOLDER.fullmatch(name) is not None


def is_file_of_evidence(name: str) -> bool:
    """Whether a file of this name is one of those that are saved."""
    return name == ABOUT or name in PAGES or COMMAND.fullmatch(name) is not None


class Exhibits:
    """The files of one attempt's folder."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is what the attempt has as its ``evidence``."""
        self._folder = folder

    def files(self) -> tuple[Exhibit, ...]:
        """The plain files in it, in the order in which a person reads them.

        Raises NoExhibitError where there is no folder any more.
        """
        with self._opened() as folder, os.scandir(folder) as entries:
            found = [
                Exhibit(entry.name, entry.stat(follow_symlinks=False).st_size)
                for entry in entries
                if is_file_of_evidence(entry.name) and entry.is_file(follow_symlinks=False)
            ]
        return tuple(sorted(found, key=_place))

    def text(self, name: str, most: int = MOST_BYTES) -> str:
        """The text of one of ``files``, its first ``most`` bytes. Raises NoExhibitError."""
        if not is_file_of_evidence(name):
            raise NoExhibitError(f"{name!r} is no file of evidence")
        with self._opened() as folder:
            # A pipe of that name must not hold us; a link is not followed.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(name, flags, dir_fd=folder)
            with os.fdopen(file, "rb") as opened:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise NoExhibitError(f"{name!r} is no plain file")
                return printable(opened.read(most))

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The folder, open; what goes wrong in the block is one sentence too."""
        if not is_folder_of_evidence(self._folder.name):
            raise NoExhibitError(f"{str(self._folder)!r} is no folder of evidence")
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                yield folder
            finally:
                os.close(folder)
        except OSError as error:
            why = f"evidence in {self._folder} cannot be read: {error.strerror}"
            raise NoExhibitError(why) from None


def _place(exhibit: Exhibit) -> tuple[int, int, str]:
    if exhibit.name == ABOUT:
        return 0, 0, ""
    if exhibit.name in PAGES:
        return 1, PAGES.index(exhibit.name), ""
    return 2, int(exhibit.name.removesuffix(".txt").split("-")[1]), exhibit.name
