"""Which attempts' evidence is kept: the newest, and whatever is not ours.

Invariant: only files and folders with the names that evidence has are ever deleted, links are
never followed, and a folder in which something else stands stays with it.
"""

import os
from contextlib import suppress
from pathlib import Path

from remediator.exhibit import is_file_of_evidence, is_folder_of_evidence


def forget_old(evidence: Path, keep: int, spared: str) -> None:
    """Delete the folders of all but the ``keep`` newest attempts, and never the one ``spared``.

    Another program may be doing the same: what has vanished meanwhile is as good as deleted.
    Raises OSError where something else stands in the way.
    """
    root = os.open(evidence, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(root) as entries:
            ours = sorted(
                entry.name
                for entry in entries
                if is_folder_of_evidence(entry.name) and entry.is_dir(follow_symlinks=False)
            )
        for name in ours[:-keep]:
            if name != spared:
                with suppress(FileNotFoundError):
                    _forget(name, root)
    finally:
        os.close(root)


def _forget(name: str, root: int) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(name, flags, dir_fd=root)
    try:
        with os.scandir(folder) as entries:
            files = [entry.name for entry in entries]
        for file in filter(is_file_of_evidence, files):
            with suppress(FileNotFoundError):
                os.unlink(file, dir_fd=folder)
    finally:
        os.close(folder)
    if all(map(is_file_of_evidence, files)):
        os.rmdir(name, dir_fd=root)
