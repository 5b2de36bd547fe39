"""Restarts a backend by a command of fleet.yml, without a shell.

The arguments are those of fleet.yml and nothing of an alert is ever among them. What the command
leaves behind when it ends by itself is left alone: it may be the server.
"""

from fleet.backend import Backend
from fleet.way import Command as Way
from remediator.process import CannotRunError, about, run
from remediator.restart import Outcome


class Command:
    """Runs ``restart.command`` with LIFEGUARD_BACKEND and LIFEGUARD_URL in its environment."""

    def restart(self, backend: Backend) -> Outcome:
        """Run it, at most ``restart.timeout`` seconds."""
        if backend.restart is None or not isinstance(backend.restart.way, Way):
            return Outcome(ok=False, why=f"{backend.name} has no restart.command")
        try:
            ended = run(backend.restart.way.words, backend.restart.timeout, about(backend))
        except CannotRunError as error:
            return Outcome(ok=False, why=str(error))
        return Outcome(
            ok=ended.status == 0, why=ended.why, exit_status=ended.status, output=ended.output
        )
