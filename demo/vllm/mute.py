"""I/O: a gate that holds every thread of the API back while its event loop is said to be busy."""

import threading
import time
from collections.abc import Callable


class Mute:
    """Open, or closed for some seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._until: float | None = None

    @property
    def seconds(self) -> float:
        """How long it will still be closed."""
        until = self._until
        return 0.0 if until is None else max(until - self._clock(), 0.0)

    def close(self, seconds: float) -> None:
        """Hold everybody back for so long from now on."""
        with self._changed:
            self._until = self._clock() + seconds
            self._changed.notify_all()

    def open(self) -> None:
        """Let everybody through, for good."""
        with self._changed:
            self._until = None
            self._changed.notify_all()

    def wait(self) -> None:
        """Return as soon as it is open."""
        if self._until is None:
            return
        with self._changed:
            while left := self.seconds:
                self._changed.wait(left)
