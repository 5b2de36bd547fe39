"""One end of time for a restart that is many exchanges with a server."""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from remediator.restart import Outcome
from remediator.restart.sentence import sentence

SLACK_SECONDS = 2.0


class Deadline:
    """When everything must be over, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; raises TimeoutError where there are none.

        Ask it before each act: it is what keeps an act from coming after it was given up.
        """
        seconds = self._at - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(f"not within {self.seconds:g} s")
        return seconds


def bounded(seconds: float, act: Callable[[Deadline], Outcome]) -> Outcome:
    """What ``act`` returns; raises nothing and takes little longer than ``seconds``.

    A library that waits without an end (for a program that finds credentials, for a server that
    sends a byte a second) is left behind in its thread, where the deadline lets it do no more.
    """
    ended: SimpleQueue[Outcome] = SimpleQueue()

    def run() -> None:
        try:
            ended.put(act(Deadline(seconds)))
        except Exception as error:  # noqa: BLE001 -- whatever a library raises is an outcome
            ended.put(Outcome(ok=False, why=f"it failed: {sentence(error)}"))

    threading.Thread(target=run, name="restart", daemon=True).start()
    try:
        return ended.get(timeout=seconds + SLACK_SECONDS)
    except Empty:
        return Outcome(ok=False, why=f"it did not end within {seconds:g} s, and may go on")
