"""The exporter's metrics: names, labels, help and where each value comes from. A public API.

Nothing here reads a clock or a socket: families are made of snapshots, anew for each scrape.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporter.memory import Snapshot
from exporter.rates import step_rate
from exporter.standing import Standing
from fleet import __version__
from fleet.answer import Result
from fleet.engine import EngineHistory
from fleet.family import COUNTER, GAUGE, Family, Value
from fleet.judgement import Verdict
from fleet.state import State


@dataclass(frozen=True)
class Scrape:
    """What one scrape is made of: snapshots young enough to show, and the moment ``now``.

    ``now`` is in monotonic seconds. ``intervals`` is two poll intervals and a read, in seconds: an
    engine's series vanish when its last good reading is older.
    """

    snapshots: Sequence[Snapshot]
    now: float
    intervals: float
    standing: Standing

    def engines(self) -> Iterator[tuple[Snapshot, str, EngineHistory]]:
        """Every engine whose last good reading is young enough to be shown."""
        for snapshot in self.snapshots:
            seen_at = snapshot.history.seen_at
            if seen_at is not None and self.now - seen_at <= self.intervals:
                for name, engine in snapshot.history.engines.items():
                    yield snapshot, name, engine


def _backend(value: Callable[[Snapshot], float | None]) -> Callable[[Scrape], Iterable[Value]]:
    """One value a backend; None leaves the series out."""

    def values(scrape: Scrape) -> Iterator[Value]:
        for snapshot in scrape.snapshots:
            number = value(snapshot)
            if number is not None:
                yield (snapshot.backend.name,), number

    return values


def _engine(value: Callable[[EngineHistory], float | None]) -> Callable[[Scrape], Iterable[Value]]:
    """One value an engine; None leaves the series out."""

    def values(scrape: Scrape) -> Iterator[Value]:
        for snapshot, name, engine in scrape.engines():
            number = value(engine)
            if number is not None:
                yield (snapshot.backend.name, name), number

    return values


def _one_hot(labels: tuple[str, ...], verdict: Verdict) -> Iterator[Value]:
    for state in State:
        yield (*labels, state), float(state is verdict.state)


def _backend_states(scrape: Scrape) -> Iterator[Value]:
    for snapshot in scrape.snapshots:
        yield from _one_hot((snapshot.backend.name,), snapshot.judgement.backend)


def _engine_states(scrape: Scrape) -> Iterator[Value]:
    for snapshot in scrape.snapshots:
        for name, verdict in snapshot.judgement.engines.items():
            yield from _one_hot((snapshot.backend.name, name), verdict)


def _counts(of: Callable[[Snapshot], Mapping[str, int]]) -> Callable[[Scrape], Iterable[Value]]:
    def values(scrape: Scrape) -> Iterator[Value]:
        for snapshot in scrape.snapshots:
            for result, count in of(snapshot).items():
                yield (snapshot.backend.name, result), count

    return values


def _restart_detected(scrape: Scrape) -> Iterator[Value]:
    for snapshot in scrape.snapshots:
        at = snapshot.history.restarted_at
        lately = at is not None and scrape.now - at <= snapshot.backend.wait
        yield (snapshot.backend.name,), float(lately)


def _lateness(scrape: Scrape) -> Iterator[Value]:
    if scrape.snapshots:
        yield (), max(snapshot.late_seconds for snapshot in scrape.snapshots)


def _start_time(snapshot: Snapshot) -> float | None:
    reading = snapshot.history.reading
    return reading.start_time if reading is not None else None


def _answer_seconds(snapshot: Snapshot) -> float | None:
    answers = [
        engine.answer.seconds
        for engine in snapshot.history.engines.values()
        if engine.answer is not None and engine.answer.result is Result.ANSWERED
    ]
    return max(answers, default=None)


BACKEND = ("backend",)
ENGINE = ("backend", "engine")
FAMILIES: tuple[Family[Scrape], ...] = (
    Family(
        "vllm_backend_up",
        GAUGE,
        "1 if the last read of the backend's page succeeded.",
        BACKEND,
        _backend(lambda s: float(s.history.failure is None)),
    ),
    Family(
        "vllm_backend_state",
        GAUGE,
        "1 for the state the backend is in, 0 for every other.",
        (*BACKEND, "state"),
        _backend_states,
    ),
    Family(
        "vllm_backend_restart_detected",
        GAUGE,
        "1 while the last restart of the backend was seen less than one wait ago.",
        BACKEND,
        _restart_detected,
    ),
    Family(
        "vllm_backend_restarts_total",
        COUNTER,
        "Restarts of the backend seen by this exporter, by whomever.",
        BACKEND,
        _backend(lambda s: s.history.restarts),
    ),
    Family(
        "vllm_backend_start_time_seconds",
        GAUGE,
        "Start of the backend's process in Unix seconds; absent where it does not say.",
        BACKEND,
        _backend(_start_time),
    ),
    Family(
        "vllm_backend_wait_seconds",
        GAUGE,
        "One wait of the backend as configured; silence of two is proof of a hang.",
        BACKEND,
        _backend(lambda s: s.backend.wait),
    ),
    Family(
        "vllm_backend_read_duration_seconds",
        GAUGE,
        "How long the last read of the backend's page took.",
        BACKEND,
        _backend(lambda s: s.read_seconds),
    ),
    Family(
        "vllm_backend_reads_total",
        COUNTER,
        "Reads of the backend's page by result.",
        (*BACKEND, "result"),
        _counts(lambda s: s.reads),
    ),
    Family(
        "vllm_backend_answer_seconds",
        GAUGE,
        "How long the last short request took; absent where none was answered yet.",
        BACKEND,
        _backend(_answer_seconds),
    ),
    Family(
        "vllm_backend_answers_total",
        COUNTER,
        "Short requests to idle engines of the backend by result.",
        (*BACKEND, "result"),
        _counts(lambda s: {str(result): count for result, count in s.answers.items()}),
    ),
    Family(
        "vllm_engine_state",
        GAUGE,
        "1 for the state the engine is in, 0 for every other.",
        (*ENGINE, "state"),
        _engine_states,
    ),
    Family(
        "vllm_engine_step_rate",
        GAUGE,
        "Steps per second that gave an output token, between the last two readings.",
        ENGINE,
        _engine(step_rate),
    ),
    Family(
        "vllm_engine_steps_total",
        COUNTER,
        "Steps that gave an output token, as the engine counts them. Proves no hang by itself.",
        ENGINE,
        _engine(lambda e: e.reading.steps),
    ),
    Family(
        "vllm_engine_tokens_total",
        COUNTER,
        "Output tokens, as the engine counts them.",
        ENGINE,
        _engine(lambda e: e.reading.generation_tokens),
    ),
    Family(
        "vllm_engine_requests_running",
        GAUGE,
        "Requests the engine is working on; absent before its first step in multiprocess mode.",
        ENGINE,
        _engine(lambda e: e.reading.running),
    ),
    Family(
        "vllm_engine_requests_waiting",
        GAUGE,
        "Requests that wait for the engine; absent before its first step in multiprocess mode.",
        ENGINE,
        _engine(lambda e: e.reading.waiting),
    ),
    Family(
        "vllm_engine_quiet_seconds",
        GAUGE,
        "Watched time in which work was pending and the engine gave no sign of life.",
        ENGINE,
        _engine(lambda e: e.quiet.seconds),
    ),
    Family(
        "vllm_engine_starved_seconds",
        GAUGE,
        "Watched time in which requests ran or waited and no work was done.",
        ENGINE,
        _engine(lambda e: e.starved.seconds),
    ),
    Family(
        "vllm_engine_longest_quiet_seconds",
        GAUGE,
        "The longest silence with work pending that ended by itself.",
        ENGINE,
        _engine(lambda e: e.longest_quiet),
    ),
    Family(
        "vllm_exporter_backends",
        GAUGE,
        "Backends that are watched: those listed and those discovered.",
        (),
        lambda scrape: [((), len(scrape.standing.backends))],
    ),
    Family(
        "vllm_exporter_discovered_backends",
        GAUGE,
        "Backends that are watched because this source of discovery gave them.",
        ("source",),
        lambda scrape: [((source.name,), source.backends) for source in scrape.standing.sources],
    ),
    Family(
        "vllm_exporter_discovery_failures_total",
        COUNTER,
        "Looks at this source of discovery of which a part failed and kept its last answer.",
        ("source",),
        lambda scrape: [((source.name,), source.failures) for source in scrape.standing.sources],
    ),
    Family(
        "vllm_exporter_config_last_reload_successful",
        GAUGE,
        "1 if the fleet.yml that was read last is in force, 0 if it had a mistake.",
        (),
        lambda scrape: [((), float(scrape.standing.reload_succeeded))],
    ),
    Family(
        "vllm_exporter_config_last_reload_success_timestamp_seconds",
        GAUGE,
        "When the fleet.yml in force was read, in Unix seconds.",
        (),
        lambda scrape: [((), scrape.standing.reloaded_at)],
    ),
    Family(
        "vllm_exporter_poll_lateness_seconds",
        GAUGE,
        "How late the latest poll of any backend began, at worst.",
        (),
        _lateness,
    ),
    Family(
        "vllm_exporter_build_info",
        GAUGE,
        "1, with the exporter's version.",
        ("version",),
        lambda _: [((__version__,), 1.0)],
    ),
)

COLLECT_ERRORS = "vllm_exporter_collect_errors_total"
NAMES: Mapping[str, tuple[str, ...]] = {
    **{family.name: family.labels for family in FAMILIES},
    COLLECT_ERRORS: ("family",),
}
