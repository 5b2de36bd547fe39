"""What a backend's page says about its engines. The only place that knows vLLM's metric names.

Series that only the engine writes are kept, because only they prove anything about the engine:
``http_*``, ``process_*`` and others go on moving while the engine hangs (measured on 0.32.0).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Self

from prometheus_client.samples import Sample

from fleet.page import samples, wanted_lines

# Names by field, all releases from 0.8.5 on. A histogram's _count and _sum count as counters.
GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_usage",
    "vllm:gpu_cache_usage_perc": "kv_usage",  # its only name up to 0.8, an alias up to 0.11
}
COUNTERS = {
    "vllm:iteration_tokens_total_count": "steps",
    "vllm:iteration_tokens_total_sum": "step_tokens",
    "vllm:generation_tokens_total": "generation_tokens",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:request_success_total": "finished",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:prefix_cache_queries_total": "prefix_queries",
    "vllm:gpu_prefix_cache_queries_total": "prefix_queries",  # up to 0.10
    "vllm:prefix_cache_hits_total": "prefix_hits",
    "vllm:gpu_prefix_cache_hits_total": "prefix_hits",  # up to 0.10
    "vllm:estimated_flops_per_gpu_total": "flops",
}
WAITING_BY_REASON = "vllm:num_requests_waiting_by_reason"
WAITING = {"capacity": "waiting_capacity", "deferred": "waiting_deferred"}
SLEEP_STATE = "vllm:engine_sleep_state"
START_TIME = "process_start_time_seconds"
# On the page once somebody has updated weights (reinforcement learning). Written by the API server.
UPDATES = "vllm:rl_weight_update_operations_in_flight"
UPDATED = "vllm:rl_weight_update_operation_duration_seconds_count"
# The labels that vLLM itself writes beside these names; a Prometheus adds the target's own.
LABELS = ("engine", "model_name", "reason", "sleep_state", "finished_reason", "operation")

_VLLM = {*GAUGES, *COUNTERS, WAITING_BY_REASON, SLEEP_STATE, UPDATES, UPDATED}
NAMES = tuple(sorted({*_VLLM, START_TIME}))
# Ray's metrics agent writes vllm_ where vLLM writes vllm:.
_SPELLINGS = {name.replace("vllm:", "vllm_"): name for name in _VLLM}
_WANTED = wanted_lines([*_VLLM, *_SPELLINGS], [START_TIME])
# Without the start time, as a regular expression by which Prometheus matches whole names.
VLLM_NAMES = rf"(?:[A-Za-z0-9_]+_)?(?:{'|'.join(sorted({*_VLLM, *_SPELLINGS}))})"


@dataclass(frozen=True)
class EngineReading:
    """What one engine wrote; None where the page does not say.

    All are counts of requests, steps or tokens, except ``kv_usage`` (0 to 1), ``flops`` and
    ``awake``. ``steps`` leaves out steps that yield no output token, so a standing ``steps``
    proves nothing. ``unreadable`` names the fields whose line was there but was NaN or malformed.
    """

    running: float | None = None
    waiting: float | None = None
    waiting_capacity: float | None = None
    waiting_deferred: float | None = None
    kv_usage: float | None = None
    steps: float | None = None
    step_tokens: float | None = None
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    finished: float | None = None
    preemptions: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    flops: float | None = None
    awake: bool | None = None
    unreadable: frozenset[str] = frozenset()

    @property
    def requests_pending(self) -> bool:
        """Whether the engine shows work that its scheduler ought to get on with."""
        for_capacity = (self.waiting or 0) > 0 and (self.waiting_capacity or 0) > 0
        return (self.running or 0) > 0 or for_capacity

    @property
    def anything_pending(self) -> bool:
        """The same with every waiting request, whatever it waits for."""
        return (self.running or 0) > 0 or (self.waiting or 0) > 0

    @property
    def pending_is_readable(self) -> bool:
        """Whether running and waiting can be believed; a gauge that is NaN is not 0."""
        return self.unreadable.isdisjoint(("running", "waiting"))

    @property
    def cold(self) -> bool:
        """Whether it says that nothing has come out of this process yet.

        The first request to a new process may have to wait for a compilation: 30 to 110 s.
        """
        said = [
            out for out in (self.steps, self.generation_tokens, self.finished) if out is not None
        ]
        return bool(said) and not any(said)


COUNTED = tuple(dict.fromkeys(COUNTERS.values()))
MEASURED = tuple(item.name for item in fields(EngineReading) if item.name != "unreadable")


@dataclass(frozen=True)
class Reading:
    """One page: who answered, and what each of its engines wrote, by the engine's label.

    ``start_time`` is in Unix seconds, and None in Prometheus' multiprocess mode, which vLLM uses
    with more than one API server. ``updates_weights``: somebody updates weights here, and pauses
    the engines for it; ``updating``: right now.
    """

    start_time: float | None = None
    engines: MappingProxyType[str, EngineReading] = field(
        default_factory=lambda: MappingProxyType({})
    )
    updates_weights: bool = False
    updating: bool = False

    @property
    def shown(self) -> frozenset[tuple[str, str]]:
        """What the page has a line for: field names by engine, and the start time."""
        of_process = {("", "start_time")} if self.start_time is not None else set()
        return frozenset(of_process).union(
            (name, item)
            for name, engine in self.engines.items()
            for item in MEASURED
            if getattr(engine, item) is not None or item in engine.unreadable
        )

    def lacks(self, shown: Iterable[tuple[str, str]]) -> bool:
        """Whether the page has no line for something of what another has shown."""
        for name, item in shown:
            engine = self.engines.get(name)
            if engine is None:
                if name or self.start_time is None:
                    return True
            elif getattr(engine, item) is None and item not in engine.unreadable:
                return True
        return False

    @classmethod
    def from_page(cls, text: str) -> Self:
        """Read a page in Prometheus' text format; a bad line costs that line only."""
        found = samples(text, _WANTED)
        return cls.from_samples(found.samples, found.malformed)

    @classmethod
    def from_samples(cls, found: Iterable[Sample], bad_names: Iterable[str] = ()) -> Self:
        """Read one page's samples, named as ``wanted_name`` does; ``bad_names`` had bad lines."""
        start_time = None
        updates_weights = updating = False
        values: dict[str, dict[str, float]] = {}
        for sample in found:
            if sample.name == START_TIME:
                start_time = sample.value if math.isfinite(sample.value) else None
                continue
            known = _SPELLINGS.get(sample.name, sample.name)
            if known in (UPDATES, UPDATED):
                updates_weights = True
                updating = updating or (known == UPDATES and sample.value > 0)
                continue
            name = _field_of(known, sample.labels)
            if name is None:
                continue
            of_engine = values.setdefault(sample.labels.get("engine", "0"), {})
            # One engine may show several model names (adapters): together they are its work.
            of_engine[name] = (
                max(of_engine.get(name, 0.0), sample.value)
                if name == "kv_usage" and not math.isnan(sample.value)
                else of_engine.get(name, 0.0) + sample.value
            )
        malformed = frozenset(
            name for bad in bad_names for name in _fields_of(_SPELLINGS.get(bad, bad))
        )
        return cls(
            start_time,
            MappingProxyType(
                {engine: _engine(values[engine], malformed) for engine in sorted(values)}
            ),
            updates_weights,
            updating,
        )


def wanted_name(name: str) -> str | None:
    """The name of a series without what a re-exporter put before it; None if it tells nothing."""
    found = _WANTED.match(f"{name} ")
    return None if found is None else found[found.lastgroup or ""]


def _field_of(name: str, labels: Mapping[str, str]) -> str | None:
    if name == WAITING_BY_REASON:
        return WAITING.get(labels.get("reason", ""))
    if name == SLEEP_STATE:
        return "awake" if labels.get("sleep_state") == "awake" else None
    # Whether an abort is counted, and by whom, differs between releases: it proves nothing.
    if labels.get("finished_reason") == "abort":
        return None
    return GAUGES.get(name) or COUNTERS.get(name)


def _fields_of(name: str) -> tuple[str, ...]:
    if name == WAITING_BY_REASON:
        return tuple(WAITING.values())
    if name == SLEEP_STATE:
        return ("awake",)
    known = GAUGES.get(name) or COUNTERS.get(name)
    return (known,) if known else ()


def _engine(values: dict[str, float], malformed: frozenset[str]) -> EngineReading:
    good = {name: value for name, value in values.items() if math.isfinite(value)}
    unreadable = frozenset(values.keys() - good.keys()) | malformed
    awake = good.pop("awake", None)
    return EngineReading(
        **{name: value for name, value in good.items() if name not in malformed},
        awake=None if awake is None else awake > 0,
        unreadable=unreadable,
    )
