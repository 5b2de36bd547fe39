"""Backends, settings and snapshots for the exporter's tests."""

from collections.abc import Iterator, Sequence
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
    *_, last = _snapshots(results, backend, polled_at)
    return replace(last, since=polled_at, since_wall=1.7e9)


def remember(
    memory: Memory, *results: Reading | Failure, backend: Backend, polled_at: float = 1000.0
) -> None:
    """Put the snapshot after each of these looks, as a poller would; see ``snapshot``."""
    for one in _snapshots(results, backend, polled_at):
        memory.put(one)


def _snapshots(
    results: Sequence[Reading | Failure], backend: Backend, polled_at: float
) -> Iterator[Snapshot]:
    history, last = History(), None
    for i, result in enumerate(results):
        age = 15.0 * (len(results) - 1 - i)
        history = after(
            history, Look(polled_at - age, polled_at - age, result), interval=15.0, warm_up=180.0
        )
        judgement = judge(history, backend)
        changed = last is None or last.judgement.backend.state is not judgement.backend.state
        last = Snapshot(
            backend=backend,
            history=history,
            judgement=judgement,
            polled_at=polled_at - age,
            since=polled_at - age if last is None or changed else last.since,
            since_wall=1.7e9 - age if last is None or changed else last.since_wall,
            read_seconds=0.01,
            late_seconds=0.0,
            reads={**dict.fromkeys(READ_RESULTS, 0), "ok": i + 1},
            answers=dict.fromkeys(Result, 0),
        )
        yield last
