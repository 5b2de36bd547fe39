"""What a program writes within a bounded time: its beginning and its end, never more than that.

Its output comes through a pipe, so that one that floods fills no disk. When it has ended, by itself
or not, whatever is left of its process group is killed.
"""

import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from remediator.process import LOOK_EVERY_SECONDS, Program, ended_with, too_long

FLOOD_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Captured:
    """How it ended in one sentence, after how many seconds, and what it wrote."""

    why: str
    status: int | None
    seconds: float
    output: bytes


class _Output:
    """What comes through a pipe: the first and the last bytes of it, ``most`` in all."""

    def __init__(self, pipe: int, most: int) -> None:
        self._pipe = pipe
        self._half = most // 2
        self._first = bytearray()
        self._last = bytearray()
        self._seen = 0
        self.is_open = True
        self._poller = select.poll()
        self._poller.register(pipe, select.POLLIN)

    @property
    def is_flood(self) -> bool:
        return self._seen > FLOOD_BYTES

    def read_within(self, seconds: float) -> None:
        """Read what comes within so many seconds, once."""
        if not self.is_open:
            time.sleep(seconds)
        elif self._poller.poll(seconds * 1000):
            self._read()

    def drain(self) -> None:
        """Read what is there.

        Bounded: what has left its group writes on, perhaps as fast as we read.
        """
        with suppress(BlockingIOError):
            while self.is_open and not self.is_flood:
                self._read()

    def kept(self) -> bytes:
        left_out = self._seen - len(self._first) - len(self._last)
        gap = f"\n[{left_out} bytes are left out here]\n".encode() if left_out else b""
        return bytes(self._first + gap + self._last)

    def _read(self) -> None:
        data = os.read(self._pipe, CHUNK_BYTES)
        self.is_open = bool(data)
        self._seen += len(data)
        room = self._half - len(self._first)
        self._first += data[:room]
        self._last += data[room:]
        del self._last[: max(0, len(self._last) - self._half)]


def capture(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout: float,
    grace: float,
    most: int,
) -> Captured:
    """Run a program, at most ``timeout`` seconds, and keep about ``most`` bytes of its output.

    After that it has ``grace`` seconds from SIGTERM to SIGKILL and as many to be gone. One that
    writes more than FLOOD_BYTES is ended at once. Raises CannotRunError, and OSError where there is
    no pipe to be had.
    """
    began = time.monotonic()
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        try:
            program = Program(words, writing, environment)
        finally:
            os.close(writing)
        output = _Output(reading, most)
        status, why = _followed(program, output, began, timeout, grace)
        return Captured(why, status, time.monotonic() - began, output.kept())
    finally:
        os.close(reading)


def _followed(
    program: Program, output: _Output, began: float, timeout: float, grace: float
) -> tuple[int | None, str]:
    """Its exit status, and how it ended."""
    while not program.has_ended():
        left = began + timeout - time.monotonic()
        if left <= 0:
            killed = program.kill_group(grace, grace)
            output.drain()
            return None, too_long(timeout, killed=killed)
        if output.is_flood:
            program.kill_group(grace, grace)
            return None, f"the command wrote more than {FLOOD_BYTES} bytes and was killed"
        output.read_within(min(left, LOOK_EVERY_SECONDS))
    program.kill_leftovers()
    output.drain()
    status = program.wait(grace)
    return status, "the command was not reaped" if status is None else ended_with(status)
