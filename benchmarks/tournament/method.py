"""What every method is: it looks at a server now and then and may call for a restart."""

from typing import Protocol

from benchmarks.tournament.seen import Seen


class Method(Protocol):
    """One way to find a hang, watching one server.

    ``name``: its row in the table. ``due``: when it wants to look next, in seconds of the virtual
    clock; each look sets it later. ``firing``: whether an alert of its own fires, where it looks
    again before it calls for a restart.
    """

    name: str
    due: float

    @property
    def firing(self) -> bool:
        """Whether that alert fires now."""

    def look(self, server: Seen, now: float) -> bool:
        """Look at the server at ``now``; True calls for a restart."""

    def restarted(self, serves_at: float) -> None:
        """The restart it called for has been made; the server answers again at ``serves_at``."""

    def told_a_person(self) -> bool:
        """Whether it has called a person since it was last asked this."""
