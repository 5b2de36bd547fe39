"""Metrics pages as text, as a server would write them."""

from collections.abc import Mapping

SERIES = {
    "running": "vllm:num_requests_running{{{0}}}",
    "waiting": "vllm:num_requests_waiting{{{0}}}",
    "capacity": 'vllm:num_requests_waiting_by_reason{{{0},reason="capacity"}}',
    "deferred": 'vllm:num_requests_waiting_by_reason{{{0},reason="deferred"}}',
    "kv": "vllm:kv_cache_usage_perc{{{0}}}",
    "steps": "vllm:iteration_tokens_total_count{{{0}}}",
    "generated": "vllm:generation_tokens_total{{{0}}}",
    "prompt": "vllm:prompt_tokens_total{{{0}}}",
    "queries": "vllm:prefix_cache_queries_total{{{0}}}",
    "preemptions": "vllm:num_preemptions_total{{{0}}}",
    "awake": 'vllm:engine_sleep_state{{{0},sleep_state="awake"}}',
}


def page(engines: Mapping[str, Mapping[str, float]], start_time: float | None = None) -> str:
    """One page; a series that is not given is absent from it."""
    lines = []
    for engine, values in engines.items():
        labels = f'engine="{engine}",model_name="m"'
        lines += [f"{SERIES[name].format(labels)} {value}" for name, value in values.items()]
    if start_time is not None:
        lines.append(f"process_start_time_seconds {start_time}")
    return "".join(f"{line}\n" for line in lines)


BUSY: Mapping[str, float] = {
    "running": 2,
    "waiting": 1,
    "capacity": 1,
    "deferred": 0,
    "kv": 0.25,
    "steps": 100,
    "generated": 300,
    "prompt": 50,
    "queries": 50,
    "preemptions": 0,
    "awake": 1,
}
IDLE: Mapping[str, float] = {**BUSY, "running": 0, "waiting": 0, "capacity": 0, "kv": 0}
