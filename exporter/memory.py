"""What the pollers know of each backend, for the pages to show: one snapshot a backend."""

import threading
from collections.abc import Mapping
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

    def put(self, snapshot: Snapshot) -> None:
        """Replace what is known of the snapshot's backend."""
        with self._lock:
            self._snapshots[snapshot.backend.name] = snapshot

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, in the order in which their backends were first polled."""
        with self._lock:
            return list(self._snapshots.values())
