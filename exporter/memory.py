"""What the pollers know of each backend, for the pages to show: a snapshot, and its rates."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.rates import Rates, rates_after
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


@dataclass(frozen=True)
class Watched:
    """One backend after its last poll, and what the last looks at each of its engines gave."""

    snapshot: Snapshot
    rates: Rates


class Memory:
    """The last snapshot of each backend, and its rates. Safe for many threads: both are values."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: dict[str, Snapshot] = {}
        self._rates: dict[str, Rates] = {}
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
            self._rates = {name: self._rates[name] for name in self._snapshots}

    def put(self, snapshot: Snapshot) -> None:
        """Replace what is known of its backend by one more look, if that is still to be watched."""
        name = snapshot.backend.name
        with self._lock:
            if self._expected is not None and self._expected.get(name) != snapshot.backend:
                return
            last = self._snapshots.get(name)
            # Another server by the same name, or the same that was forgotten: it begins anew.
            known = last is not None and last.backend == snapshot.backend
            before = self._rates[name] if known else {}
            self._rates[name] = rates_after(before, snapshot.history, snapshot.polled_at)
            self._snapshots[name] = snapshot

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, in the order in which their backends were first polled."""
        with self._lock:
            return list(self._snapshots.values())

    def watched(self) -> list[Watched]:
        """All snapshots with their rates, in the same order."""
        with self._lock:
            return [Watched(one, self._rates[name]) for name, one in self._snapshots.items()]
