"""The boundaries between the steps of a remediator, and the one at which it is to be killed."""

import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

OURS = "remediator."
# Who uses the database for whom says more than which method of a store it is.
USERS = ("remedy", "course", "worker", "webhook", "patrol", "collector")
NOT_A_STEP = ("Course._advance",)


@dataclass(frozen=True)
class Kill:
    """The ``nth`` time that a process comes to a boundary, it is killed there."""

    boundary: str
    nth: int


class Boundaries:
    """Those of this process. Each that is come to is written into a file, one a line."""

    def __init__(self, seen: Path, kill: Kill | None) -> None:
        self._seen = os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._kill = kill
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """Come to a boundary, and perhaps no further."""
        with self._lock:
            self._counts[name] += 1
            count = self._counts[name]
            os.write(self._seen, f"{name}\n".encode())
        if self._kill == Kill(name, count):
            os.kill(os.getpid(), signal.SIGKILL)


def step_of(frame: FrameType | None) -> str:
    """Which step of the remediator the frame belongs to: ``Attempts.advance < Course.begin``."""
    inner, outer = "", ""
    while frame is not None and not outer:
        module = str(frame.f_globals.get("__name__", ""))
        name = frame.f_code.co_qualname.replace("<locals>.", "")
        if module.startswith(OURS) and module != "remediator.database":
            inner = inner or name
            if module.removeprefix(OURS) in USERS and name not in NOT_A_STEP:
                outer = name
        frame = frame.f_back
    if not outer or inner == outer:
        return inner or "start-up"
    return f"{inner} < {outer}"
