"""Who writes next, where only one can: SQLite alone would let its writers sleep and try again."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext


class Turns:
    """One at a time, in the order of asking, but the urgent before all others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._urgent: deque[threading.Event] = deque()
        self._others: deque[threading.Event] = deque()

    @contextmanager
    def turn(self, *, urgent: bool) -> Iterator[None]:
        """Wait for a turn, and have it until the end of the block."""
        with self._lock:
            waits = self._is_taken
            self._is_taken = True
            mine = threading.Event()
            if waits:
                (self._urgent if urgent else self._others).append(mine)
        if waits:
            mine.wait()
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        with self._lock:
            if self._urgent:
                self._urgent.popleft().set()
            elif self._others:
                self._others.popleft().set()
            else:
                self._is_taken = False


class Unlimited:
    """For a database that lets several write at once."""

    def turn(self, *, urgent: bool) -> nullcontext[None]:
        """No waiting."""
        del urgent
        return nullcontext()
