"""Restarts a backend by a command of fleet.yml, without a shell.

The arguments are those of fleet.yml and nothing of an alert is ever among them.
"""

import os

from fleet.backend import Backend
from fleet.way import Command as Way
from remediator.restart import Outcome
from remediator.restart.process import CannotRunError, run


class Command:
    """Runs ``restart.command`` with LIFEGUARD_BACKEND and LIFEGUARD_URL in its environment."""

    def restart(self, backend: Backend) -> Outcome:
        """Run it, at most ``restart.timeout`` seconds."""
        if backend.restart is None or not isinstance(backend.restart.way, Way):
            return Outcome(ok=False, why=f"{backend.name} has no restart.command")
        env = os.environ | {"LIFEGUARD_BACKEND": backend.name, "LIFEGUARD_URL": backend.url}
        try:
            ended = run(backend.restart.way.words, backend.restart.timeout, env)
        except CannotRunError as error:
            return Outcome(ok=False, why=str(error))
        if ended.status is None:
            killed = "was killed" if ended.gone else "could not be killed"
            why = f"the command did not end within {backend.restart.timeout:g} s and {killed}"
            return Outcome(ok=False, why=why, output=ended.output)
        why = f"the command ended with status {ended.status}"
        if ended.status < 0:
            why = f"the command was ended by signal {-ended.status}"
        return Outcome(ended.status == 0, why, ended.status, ended.output)
