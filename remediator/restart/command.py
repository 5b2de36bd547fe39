"""Restarts a backend by a command of fleet.yml, without a shell.

The arguments are those of fleet.yml and nothing of an alert is ever among them. The command leads
a process group of its own, which is killed as a whole when its time is up. When it ends by itself
the group is left alone: what it started may be the server.
"""

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import IO

from fleet.backend import Backend
from fleet.way import Command as Way
from remediator.restart import Outcome

TAIL_BYTES = 4096
TERM_TO_KILL_SECONDS = 2.0
KILL_TO_GONE_SECONDS = 2.0
LOOK_EVERY_SECONDS = 0.05


class Command:
    """Runs ``restart.command`` with LIFEGUARD_BACKEND and LIFEGUARD_URL in its environment."""

    def restart(self, backend: Backend) -> Outcome:
        """Run it, at most ``restart.timeout`` seconds."""
        if backend.restart is None or not isinstance(backend.restart.way, Way):
            return Outcome(ok=False, why=f"{backend.name} has no restart.command")
        words = backend.restart.way.words
        # A file and not a pipe: a server that the command leaves behind keeps it open, and must
        # neither hold us nor be killed by a write when we are gone.
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(  # noqa: S603 -- the command of fleet.yml, no shell
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=os.environ
                    | {"LIFEGUARD_BACKEND": backend.name, "LIFEGUARD_URL": backend.url},
                )
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                return Outcome(ok=False, why=f"{words[0]!r} cannot be run: {reason}")
            return _ended(process, output, backend.restart.timeout)


def _ended(process: "subprocess.Popen[bytes]", output: IO[bytes], timeout: float) -> Outcome:
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        killed = "was killed" if _kill_group(process) else "could not be killed"
        why = f"the command did not end within {timeout:g} s and {killed}"
        return Outcome(ok=False, why=why, output=_tail(output))
    why = f"the command ended with status {status}"
    if status < 0:
        why = f"the command was ended by signal {-status}"
    return Outcome(ok=status == 0, why=why, exit_status=status, output=_tail(output))


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
