"""I/O: the journals of gateways on this host that are gone.

A file whose lock is free belongs to nobody who is alive. All files of one gateway are taken
together, or not at all. Before the first of them is deleted, each is marked as booked: whoever is
killed in the middle of that leaves files that nobody books again.
"""

import fcntl
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.ledger.entries import BLOCK, BLOCK_HEAD, HEAD, Found, block_head, found
from gateway.ledger.segment import BOOKED_AT, FILE_HEAD, FORM, MAGIC, NEW, SUFFIX

BOOKED = 1


@dataclass(frozen=True)
class Dead:
    """The files of one gateway that is gone, locked by us."""

    holder: str
    files: tuple[tuple[Path, int], ...]

    def runs(self) -> list[Found]:
        """Everything that its journal holds; nothing, if that is in the book already."""
        chains: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
        for _, file in self.files:
            data = os.pread(file, os.fstat(file).st_size, 0)
            if len(data) < BLOCK:
                continue
            magic, form, mark = FILE_HEAD.unpack_from(data)
            if mark == BOOKED:
                return []
            if (magic, form) not in ((MAGIC, FORM), (bytes(len(MAGIC)), 0)):
                continue
            for at in range(BLOCK, len(data) - BLOCK + 1, BLOCK):
                used, serial, index, check = BLOCK_HEAD.unpack_from(data, at)
                if used and (used, serial, index, check) == block_head(serial, index):
                    chains[serial][index] = data[at : at + BLOCK]
        told = (found(_unbroken(chain), serial) for serial, chain in sorted(chains.items()))
        return [run for run in told if run is not None]

    def remove(self) -> None:
        """Delete the files, for what they hold is in the book."""
        for _, file in self.files:
            os.pwrite(file, HEAD.pack(BOOKED), BOOKED_AT)
        for path, _ in self.files:
            path.unlink(missing_ok=True)


def dead(folder: Path) -> Iterator[Dead]:
    """Each gateway that is gone, one after the other; its files are ours for as long."""
    for path in sorted(folder.glob(f"{NEW}*")):
        with _locked([path]) as files:
            if files is not None:
                path.unlink(missing_ok=True)
    by_holder: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if not path.name.startswith(NEW):
            by_holder[path.name.partition("-")[0]].append(path)
    for holder, paths in by_holder.items():
        with _locked(paths) as files:
            if files is not None:
                yield Dead(holder, files)


@contextmanager
def _locked(paths: list[Path]) -> Iterator[tuple[tuple[Path, int], ...] | None]:
    """The files, opened and locked; None where somebody else has one of them."""
    with ExitStack() as stack:
        files = []
        for path in paths:
            try:
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                yield None
                return
            stack.callback(os.close, file)
            if not _is_ours(path, file):
                yield None
                return
            files.append((path, file))
        yield tuple(files)


def _is_ours(path: Path, file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody else may have booked and deleted it before we had the lock.
        return os.stat(path).st_ino == os.fstat(file).st_ino  # noqa: PTH116
    except (BlockingIOError, FileNotFoundError):
        return False


def _unbroken(chain: dict[int, bytes]) -> list[bytes]:
    blocks: list[bytes] = []
    while len(blocks) in chain:
        blocks.append(chain[len(blocks)])
    return blocks
