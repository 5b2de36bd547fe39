"""Restarts a backend's systemd unit by systemctl.

``systemctl restart`` returns when the unit has been stopped and started, which for Type=notify is
when it says that it is ready. systemd does the work and systemctl only waits for it: where our time
is up, systemctl is ended and the job goes on.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from fleet.backend import Backend
from fleet.way import Systemd as Way
from remediator.process import CannotRunError, Ended, run
from remediator.restart import Outcome
from remediator.restart.sentence import one_line

RUNTIME = "XDG_RUNTIME_DIR"
NO_UNIT = 5  # as for init scripts: the program is not installed
# What systemctl and polkit say in the C locale, to those who may not and to those who cannot reach.
DENIED = ("Access denied", "authentication required", "Permission denied")
UNREACHABLE = ("Failed to connect to bus", "System has not been booted with systemd")


class Systemd:
    """Runs ``systemctl restart UNIT``, which never asks for a password."""

    def restart(self, backend: Backend) -> Outcome:
        """Restart the unit; wait for systemd for at most ``restart.timeout`` seconds."""
        if backend.restart is None or not isinstance(backend.restart.way, Way):
            return Outcome(ok=False, why=f"{backend.name} has no restart.systemd")
        way = backend.restart.way
        words = ["systemctl", *(["--user"] if way.user else []), "--no-ask-password", "restart"]
        env = environment(os.environ, Path(f"/run/user/{os.geteuid()}"))
        try:
            ended = run([*words, "--", way.unit], backend.restart.timeout, env)
        except CannotRunError as error:
            return Outcome(ok=False, why=str(error))
        why = _why(way, ended, backend.restart.timeout)
        return Outcome(ended.status == 0, why, ended.status, ended.output)


def environment(ours: Mapping[str, str], runtime: Path) -> dict[str, str]:
    """More than ours: untranslated messages, and the user's manager where no login named it."""
    env = {"LC_ALL": "C"}
    if RUNTIME not in ours and runtime.is_dir():
        env[RUNTIME] = str(runtime)
    return env


def _why(way: Way, ended: Ended, timeout: float) -> str:
    manager = "the user's systemd" if way.user else "systemd"
    if ended.status is None:
        return (
            f"{manager} has not restarted {way.unit} within {timeout:g} s; we no longer wait, "
            "and its job goes on"
        )
    if ended.status == 0:
        return f"{manager} has restarted {way.unit}"
    said = one_line(ended.output.partition("\n")[0]).rstrip(".")
    if ended.status == NO_UNIT and "not found" in ended.output:
        return f"{manager} has no unit {way.unit}"
    if any(words in ended.output for words in DENIED):
        return f"{manager} does not allow us to restart {way.unit}: {said}"
    if any(words in ended.output for words in UNREACHABLE):
        return f"{manager} cannot be reached: {said}"
    return f"{manager} could not restart {way.unit}: {said or 'no word of why'}"
