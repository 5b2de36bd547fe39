"""Who has asked for what: proof that somebody sent nothing, too."""

import threading
from collections import Counter


class Visits:
    """Counts every request received, by path and User-Agent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, path: str, user_agent: str) -> None:
        """Count one request."""
        with self._lock:
            self._counts[path, user_agent] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        """All of them so far."""
        with self._lock:
            return dict(self._counts)
