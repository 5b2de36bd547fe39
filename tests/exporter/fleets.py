"""Backends, settings and snapshots for the exporter's tests."""

from dataclasses import replace

from exporter.memory import READ_RESULTS, Memory, Snapshot
from fleet.answer import Result
from fleet.backend import Backend, Kind
from fleet.fetch import Failure
from fleet.history import History, Look, after
from fleet.judgement import judge
from fleet.reading import Reading
from fleet.settings import ExporterSettings

SETTINGS = ExporterSettings(interval=15.0, timeout=5.0, answer_every=300.0)


def backend_at(
    url: str, *, name: str = "gpu-a", kind: Kind = Kind.VLLM, wait: float = 60.0
) -> Backend:
    return Backend(name=name, url=url, kind=kind, wait=wait, load_time=600.0)


class Clock:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def snapshot(*results: Reading | Failure, backend: Backend, polled_at: float = 1000.0) -> Snapshot:
    """The snapshot after these looks, 15 s apart, the last of which ended at ``polled_at``."""
    history = History()
    for i, result in enumerate(results):
        ended = polled_at - 15.0 * (len(results) - 1 - i)
        history = after(history, Look(ended, ended, result), interval=15.0)
    return Snapshot(
        backend=backend,
        history=history,
        judgement=judge(history, backend),
        polled_at=polled_at,
        since=polled_at,
        since_wall=1.7e9,
        read_seconds=0.01,
        late_seconds=0.0,
        reads={**dict.fromkeys(READ_RESULTS, 0), "ok": len(results)},
        answers=dict.fromkeys(Result, 0),
    )


def remember(
    memory: Memory, *results: Reading | Failure, backend: Backend, polled_at: float = 1000.0
) -> None:
    """Put each of these looks, 15 s apart, as a poller would; the last ended at ``polled_at``."""
    since = since_wall = 0.0
    state = None
    for i in range(len(results)):
        age = 15.0 * (len(results) - 1 - i)
        one = snapshot(*results[: i + 1], backend=backend, polled_at=polled_at - age)
        if one.judgement.backend.state is not state:
            state, since, since_wall = one.judgement.backend.state, one.polled_at, 1.7e9 - age
        memory.put(replace(one, since=since, since_wall=since_wall))
