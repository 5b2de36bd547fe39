"""From what was counted to values under the sample names of the page."""

from collections.abc import Iterator, Mapping

from demo.vllm.histogram import Distribution
from demo.vllm.number import exposed
from demo.vllm.tally import Published
from demo.vllm.template import Labels
from demo.vllm.traffic import Tallied

Key = tuple[str, Labels]

STEP_GAUGES = frozenset(
    {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_requests_waiting_by_reason",
        "vllm:kv_cache_usage_perc",
    }
)


def engine_series(published: Published) -> dict[Key, float]:
    """Everything the engine writes, without the labels ``engine`` and ``model_name``.

    What is not in here (FLOPs without ``--enable-mfu-metrics``, sleep, multi-modal caches) stays
    as the recorded page has it.
    """
    computed = published.prompt_tokens - published.prompt_tokens_cached
    series: dict[Key, float] = {
        ("vllm:num_requests_running", ()): published.num_requests_running,
        ("vllm:num_requests_waiting", ()): published.num_requests_waiting,
        ("vllm:num_requests_waiting_by_reason", (("reason", "capacity"),)): (
            published.num_requests_waiting
        ),
        ("vllm:kv_cache_usage_perc", ()): published.kv_cache_usage_perc,
        ("vllm:prefix_cache_queries_total", ()): published.prefix_cache_queries,
        ("vllm:prefix_cache_hits_total", ()): published.prefix_cache_hits,
        ("vllm:num_preemptions_total", ()): published.num_preemptions,
        ("vllm:prompt_tokens_total", ()): published.prompt_tokens,
        ("vllm:prompt_tokens_by_source_total", (("source", "local_compute"),)): computed,
        ("vllm:prompt_tokens_by_source_total", (("source", "local_cache_hit"),)): (
            published.prompt_tokens_cached
        ),
        ("vllm:prompt_tokens_cached_total", ()): published.prompt_tokens_cached,
        ("vllm:prompt_tokens_cached_by_source_total", (("source", "device"),)): (
            published.prefix_cache_hits
        ),
        ("vllm:generation_tokens_total", ()): published.generation_tokens,
    }
    for reason, count in published.request_success.items():
        series["vllm:request_success_total", (("finished_reason", reason.value),)] = count
    for name, distribution in published.histograms.items():
        series.update(_histogram(f"vllm:{name}", (), distribution))
    return series


def traffic_children(tallied: Tallied) -> Mapping[str, list[dict[str, str]]]:
    """Which handlers, methods and statuses each ``http_*`` family has lines for."""
    handlers = [{"handler": handler} for handler in tallied.request_bytes]
    return {
        "http_requests_total": [
            {"handler": handler, "method": method, "status": status}
            for handler, method, status in tallied.responses
        ],
        "http_request_size_bytes": handlers,
        "http_response_size_bytes": handlers,
        "http_request_duration_seconds": [
            {"handler": handler, "method": method} for handler, method in tallied.durations
        ],
        "http_request_duration_highr_seconds": [{}],
    }


def traffic_series(tallied: Tallied) -> dict[Key, float]:
    """Everything the API server counts about its answers."""
    series: dict[Key, float] = {}
    for (handler, method, status), count in tallied.responses.items():
        by_status = (("handler", handler), ("method", method), ("status", status))
        series["http_requests_total", by_status] = count
    for name, sizes in (
        ("http_request_size_bytes", tallied.request_bytes),
        ("http_response_size_bytes", tallied.response_bytes),
    ):
        for handler, size in sizes.items():
            series[f"{name}_sum", (("handler", handler),)] = size
            series[f"{name}_count", (("handler", handler),)] = sum(
                count for key, count in tallied.responses.items() if key[0] == handler
            )
    for (handler, method), durations in tallied.durations.items():
        labels = (("handler", handler), ("method", method))
        series.update(_histogram("http_request_duration_seconds", labels, durations))
    series.update(_histogram("http_request_duration_highr_seconds", (), tallied.all_durations))
    return series


def _histogram(
    name: str, labels: Labels, distribution: Distribution
) -> Iterator[tuple[Key, float]]:
    bounds = (*distribution.bounds, float("inf"))
    for bound, count in zip(bounds, distribution.cumulative, strict=True):
        # Label names stand in alphabetical order on the page.
        with_bound = tuple(sorted((*labels, ("le", exposed(bound)))))
        yield (f"{name}_bucket", with_bound), count
    yield (f"{name}_count", labels), distribution.count
    yield (f"{name}_sum", labels), distribution.sum
