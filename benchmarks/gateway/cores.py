"""Which core is the relay's alone, and which all the others have."""

import os
from collections.abc import Sequence
from dataclasses import dataclass


class TooFewCoresError(Exception):
    """There is no second core, so nothing can be measured; the sentence says so."""


@dataclass(frozen=True)
class Cores:
    """``relay``: for what is measured. ``load``: for the server and the clients."""

    relay: int
    load: int

    @classmethod
    def here(cls) -> "Cores":
        """The last core that this process may use, and the first. Raises TooFewCoresError."""
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) == 1:
            raise TooFewCoresError("two cores are needed, one for the relay alone")
        return cls(relay=usable[-1], load=usable[0])


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """The command on this core only, with all that it starts."""
    return ["taskset", "--cpu-list", str(core), *command]
