"""Runs one program for a restart: no shell, bounded, its end and the tail of its output kept.

The program leads a process group of its own, which is killed as a whole when its time is up. When
it ends by itself the group is left alone: what it started may be the server.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

TAIL_BYTES = 4096
TERM_TO_KILL_SECONDS = 2.0
KILL_TO_GONE_SECONDS = 2.0
LOOK_EVERY_SECONDS = 0.05


class CannotRunError(Exception):
    """The program could not be started; the sentence says which and why."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its status, negative for a signal, and the tail of its output.

    ``status`` is None where its time was up first; ``gone`` then tells whether it could be killed.
    """

    status: int | None
    gone: bool
    output: str


def run(words: Sequence[str], timeout: float, env: Mapping[str, str]) -> Ended:
    """Run it for at most ``timeout`` seconds. Raises CannotRunError."""
    # A file and not a pipe: a server that the program leaves behind keeps it open, and must
    # neither hold us nor be killed by a write when we are gone.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 -- the words of fleet.yml, no shell
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=env,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CannotRunError(f"{words[0]!r} cannot be run: {reason}") from None
        try:
            return Ended(process.wait(timeout), gone=True, output=_tail(output))
        except subprocess.TimeoutExpired:
            return Ended(None, _kill_group(process), _tail(output))


def _kill_group(process: "subprocess.Popen[bytes]") -> bool:
    """SIGTERM, then SIGKILL, to all of the group; tells whether its leader is gone.

    The leader is not reaped before that, so that the group's number stays ours. One that has
    become another user (sudo) cannot be signalled and is left behind.
    """
    with suppress(PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + TERM_TO_KILL_SECONDS
        while time.monotonic() < deadline and not _has_ended(process):
            time.sleep(LOOK_EVERY_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_TO_GONE_SECONDS)
        return True
    return False


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    without_reaping = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, without_reaping) is not None


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - TAIL_BYTES))
    text = output.read(TAIL_BYTES).decode("utf-8", errors="replace")
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
