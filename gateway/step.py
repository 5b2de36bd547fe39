"""What a piece of a backend's stream came to."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from gateway.outlet import Detail
from gateway.run import Run


class State(StrEnum):
    """How far it is. FINISHED: it has truly ended, but usage or [DONE] have not come yet."""

    RUNNING = "running"
    FINISHED = "finished"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class Step(NamedTuple):
    """One step.

    ``out``: events for the client. ``ids``: the output tokens that they stand for; bill them
    before the bytes go out. ``marks`` and ``details``: of the events, see gateway.outlet. ``runs``:
    what went the short way since the last step, and out before this one's events.
    ``progress``: something other than comments came. ``abort``: the backend is of no more use,
    hang up on it.
    """

    out: bytes
    ids: Sequence[int]
    state: State
    progress: bool = False
    abort: bool = False
    marks: Sequence[int] = ()
    details: Sequence[Detail] = ()
    runs: Sequence[Run] = ()
