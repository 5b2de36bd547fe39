"""What the pollers know of each backend, for the pages to show: one snapshot a backend."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.answer import Result
from fleet.backend import Backend
from fleet.fetch import Trouble
from fleet.history import History
from fleet.judgement import Judgement

OK = "ok"
READ_RESULTS = (OK, *Trouble)


@dataclass(frozen=True)
class Snapshot:
    """One backend after its last poll.

    ``polled_at`` is when that poll ended and ``since`` when the backend's state last changed, both
    monotonic seconds; ``since_wall`` is the latter in Unix seconds, for people. ``read_seconds``:
    how long the last read took. ``late_seconds``: how late the poll began. ``reads`` and
    ``answers`` count all so far by their result.
    """

    backend: Backend
    history: History
    judgement: Judgement
    polled_at: float
    since: float
    since_wall: float
    read_seconds: float
    late_seconds: float
    reads: Mapping[str, int]
    answers: Mapping[Result, int]


class Memory:
    """The last snapshot of each backend. Safe for many threads: snapshots are values."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: dict[str, Snapshot] = {}
        self._expected: dict[str, Backend] | None = None

    def expect(self, backends: Iterable[Backend]) -> None:
        """Forget all others, also what polls of them that are still under way will put."""
        with self._lock:
            self._expected = {backend.name: backend for backend in backends}
            self._snapshots = {
                name: snapshot
                for name, snapshot in self._snapshots.items()
                if self._expected.get(name) == snapshot.backend
            }

    def put(self, snapshot: Snapshot) -> None:
        """Replace what is known of the snapshot's backend, if that is still to be watched."""
        name = snapshot.backend.name
        with self._lock:
            if self._expected is None or self._expected.get(name) == snapshot.backend:
                self._snapshots[name] = snapshot

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, in the order in which their backends were first polled."""
        with self._lock:
            return list(self._snapshots.values())
