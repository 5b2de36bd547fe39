"""How a server is restarted: one module for each way, all behind one method."""

from dataclasses import dataclass
from typing import Protocol

from fleet.backend import Backend


@dataclass(frozen=True)
class Outcome:
    """How a restart command ended: whether well, one sentence, and the tail of its output.

    ``exit_status`` is None where it did not end by itself.
    """

    ok: bool
    why: str
    exit_status: int | None = None
    output: str = ""


class Restarter(Protocol):
    """Restarts a backend and returns when its command has ended; loading comes after that."""

    def restart(self, backend: Backend) -> Outcome:
        """Restart it. Raises nothing: what goes wrong is an Outcome."""
        ...
