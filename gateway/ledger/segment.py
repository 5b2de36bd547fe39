"""I/O: one file of the journal, mapped into memory and locked by the process that writes it.

What was written is in the operating system's page cache, and is there for the next reader however
the writer ended. A file whose lock is free belongs to nobody who is alive.
"""

import fcntl
import mmap
import os
import struct
from pathlib import Path

from gateway.bill import BillError
from gateway.ledger.entries import BLOCK

SUFFIX = ".journal"
NEW = ".new-"
# The first block: what this is, in which form, and whether all that it holds is in the book.
FILE_HEAD = struct.Struct("<8sII")
MAGIC, FORM = b"LIFEBILL", 1
BOOKED_AT = 12
PRIVATE = 0o600


class JournalError(BillError):
    """The journal cannot take it; one sentence."""


class Segment:
    """A file of ``size`` bytes, all of it zero at first. Raises JournalError."""

    def __init__(self, folder: Path, holder: str, number: int, size: int) -> None:
        self.path = folder / f"{holder}-{number:04}{SUFFIX}"
        new = folder / f"{NEW}{self.path.name}"
        try:
            self._file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, PRIVATE)
            try:
                # It is locked before it has its name: nobody takes it for a dead process's.
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A hole that cannot be filled later would be a SIGBUS instead of an error.
                os.posix_fallocate(self._file, 0, size)
                self._map = mmap.mmap(self._file, size)
                FILE_HEAD.pack_into(self._map, 0, MAGIC, FORM, 0)
                new.rename(self.path)
            except OSError:
                os.close(self._file)
                new.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be made: {error.strerror}") from None
        self.view = memoryview(self._map)
        self.blocks = range(BLOCK, size, BLOCK)

    def remove(self) -> None:
        """Close the file and delete it."""
        self.path.unlink(missing_ok=True)
        self.view.release()
        self._map.close()
        os.close(self._file)
