"""A program of fleet.yml, run without a shell and for a bounded time.

It leads a process group of its own, which is killed as a whole when its time is up. Nothing of our
terminal reaches it.
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

from fleet.backend import Backend

TAIL_BYTES = 4096
TERM_TO_KILL_SECONDS = 2.0
KILL_TO_GONE_SECONDS = 2.0
LOOK_EVERY_SECONDS = 0.05


class CannotRunError(Exception):
    """The program was not started; the text is one sentence that names it."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: one sentence, and the tail of what it wrote.

    ``status`` is None where it did not end by itself, and negative where a signal ended it.
    """

    why: str
    status: int | None = None
    output: str = ""


class Program:
    """A started program. It is not reaped before its group is done with: the number stays ours."""

    def __init__(
        self, words: Sequence[str], output: int | IO[bytes], environment: Mapping[str, str]
    ) -> None:
        """``environment`` is added to our own. Raises CannotRunError."""
        try:
            self._process = subprocess.Popen(  # noqa: S603 -- words of fleet.yml, no shell
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | environment,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CannotRunError(f"{words[0]!r} cannot be run: {reason}") from None

    def wait(self, timeout: float) -> int | None:
        """Its exit status, or None where it still runs after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def has_ended(self) -> bool:
        """Whether it has ended; the zombie is left."""
        without_reaping = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, without_reaping) is not None

    def kill_group(
        self, grace: float = TERM_TO_KILL_SECONDS, gone: float = KILL_TO_GONE_SECONDS
    ) -> bool:
        """SIGTERM, ``grace`` seconds later SIGKILL, to all of the group.

        Tells whether its leader is gone ``gone`` seconds after that. One that has become another
        user (sudo) cannot be signalled and is left behind.
        """
        with suppress(PermissionError):
            os.killpg(self._process.pid, signal.SIGTERM)
            deadline = time.monotonic() + grace
            while time.monotonic() < deadline and not self.has_ended():
                time.sleep(LOOK_EVERY_SECONDS)
            os.killpg(self._process.pid, signal.SIGKILL)
        return self.wait(gone) is not None

    def kill_leftovers(self) -> None:
        """SIGKILL to what is left of the group of one that ``has_ended`` and was not waited for."""
        with suppress(PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def about(backend: Backend) -> dict[str, str]:
    """What a program learns of the backend: all of it, and from its environment alone."""
    return {"LIFEGUARD_BACKEND": backend.name, "LIFEGUARD_URL": backend.url}


def run(words: Sequence[str], timeout: float, environment: Mapping[str, str]) -> Ended:
    """Run a program to its end, at most ``timeout`` seconds. Raises CannotRunError.

    When it ends by itself its group is left alone: what it started may be the server.
    """
    # A file and not a pipe: a server that the program leaves behind keeps it open, and must
    # neither hold us nor be killed by a write when we are gone.
    with tempfile.TemporaryFile() as output:
        program = Program(words, output, environment)
        status = program.wait(timeout)
        if status is None:
            return Ended(too_long(timeout, killed=program.kill_group()), output=_tail(output))
        return Ended(ended_with(status), status, _tail(output))


def ended_with(status: int) -> str:
    """One sentence about an exit status."""
    if status < 0:
        return f"the command was ended by signal {-status}"
    return f"the command ended with status {status}"


def too_long(timeout: float, *, killed: bool) -> str:
    """One sentence about a program whose time was up."""
    end = "was killed" if killed else "could not be killed"
    return f"the command did not end within {round(timeout, 2):g} s and {end}"


def printable(data: bytes) -> str:
    """The text of what a program wrote, without what would control a terminal."""
    text = data.decode("utf-8", errors="replace")
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - TAIL_BYTES))
    return printable(output.read(TAIL_BYTES))
