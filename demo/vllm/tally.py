"""What the engine has written about itself: only finished steps write here."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from demo.vllm.histogram import Distribution, Histogram
from demo.vllm.request import FinishReason
from demo.vllm.scheduler import Job, Plan

TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
)
BETWEEN_TOKENS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80),
)
LATENCY = (
    *(0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60),
    *(120, 240, 480, 960, 1920, 7680),
)
BOUNDS: Mapping[str, tuple[float, ...]] = {
    "request_prompt_tokens": TOKENS,
    "request_generation_tokens": TOKENS,
    "iteration_tokens_total": STEP_TOKENS,
    "request_max_num_generation_tokens": TOKENS,
    "request_params_n": (1, 2, 5, 10, 20),
    "request_params_max_tokens": TOKENS,
    "time_to_first_token_seconds": FIRST_TOKEN,
    "inter_token_latency_seconds": BETWEEN_TOKENS,
    "request_time_per_output_token_seconds": BETWEEN_TOKENS,
    "e2e_request_latency_seconds": LATENCY,
    "request_queue_time_seconds": LATENCY,
    "request_inference_time_seconds": LATENCY,
    "request_prefill_time_seconds": LATENCY,
    "request_decode_time_seconds": LATENCY,
    "request_num_preemptions": (1, 2, 3, 4, 5, 10, 20),
    "request_prefill_kv_computed_tokens": TOKENS,
}


@dataclass(frozen=True)
class Published:
    """The engine's series at one moment, under the names of the page less ``vllm:``.

    ``stepped`` is False until the engine has written for the first time.
    """

    stepped: bool
    num_requests_running: int
    num_requests_waiting: int
    kv_cache_usage_perc: float
    prefix_cache_queries: int
    prefix_cache_hits: int
    num_preemptions: int
    prompt_tokens: int
    prompt_tokens_cached: int
    generation_tokens: int
    request_success: Mapping[FinishReason, int]
    histograms: Mapping[str, Distribution]


class Tally:
    """Adds up what steps did."""

    def __init__(self) -> None:
        self._stepped = False
        self._gauges = (0, 0, 0.0)
        self._counts: Counter[str] = Counter()
        self._success: Counter[FinishReason] = Counter()
        self._histograms = {name: Histogram(bounds) for name, bounds in BOUNDS.items()}

    def gauges(self, running: int, waiting: int, kv_usage: float) -> None:
        """What the scheduler holds at the end of a step."""
        self._stepped = True
        self._gauges = (running, waiting, kv_usage)

    def scheduled(self, plan: Plan) -> None:
        """What it took to make room."""
        self._counts["preemptions"] += plan.preempted
        self._counts["queries"] += plan.queried
        self._counts["hits"] += plan.hit

    def step(self, prompt_tokens: int, output_tokens: int) -> None:
        """A step that gave something out; one that did not is not counted, as in vLLM."""
        self._histograms["iteration_tokens_total"].observe(prompt_tokens + output_tokens)

    def token(self, job: Job, now: float) -> None:
        """One token came out of this job at ``now``, or its pooling is done."""
        self._counts["generation"] += not job.request.pooling
        if job.first_token_at is None:
            self._counts["prompt"] += len(job.request.prompt)
            self._counts["cached"] += job.cached
            self._histograms["time_to_first_token_seconds"].observe(now - job.arrived)
        else:
            self._histograms["inter_token_latency_seconds"].observe(now - job.last_token_at)

    def finish(self, job: Job, reason: FinishReason) -> None:
        """A job is complete; one whose client is gone never gets here, as in vLLM."""
        self._success[reason] += 1
        times = (job.arrived, job.scheduled_at, job.first_token_at, job.last_token_at)
        moments = [moment for moment in times if moment is not None]
        queued, prefill, decode = (after - before for before, after in pairwise(moments))
        for name, value in {
            "request_prompt_tokens": len(job.request.prompt),
            "request_generation_tokens": job.generated,
            "request_max_num_generation_tokens": job.generated,
            "request_params_n": 1,
            "request_params_max_tokens": job.request.max_tokens,
            "request_time_per_output_token_seconds": decode / max(job.generated - 1, 1),
            "e2e_request_latency_seconds": queued + prefill + decode,
            "request_queue_time_seconds": queued,
            "request_inference_time_seconds": prefill + decode,
            "request_prefill_time_seconds": prefill,
            "request_decode_time_seconds": decode,
            "request_num_preemptions": job.preemptions,
            "request_prefill_kv_computed_tokens": len(job.request.prompt) - job.cached,
        }.items():
            self._histograms[name].observe(value)

    def published(self) -> Published:
        """Everything so far, as a value of its own."""
        running, waiting, kv_usage = self._gauges
        return Published(
            stepped=self._stepped,
            num_requests_running=running,
            num_requests_waiting=waiting,
            kv_cache_usage_perc=kv_usage,
            prefix_cache_queries=self._counts["queries"],
            prefix_cache_hits=self._counts["hits"],
            num_preemptions=self._counts["preemptions"],
            prompt_tokens=self._counts["prompt"],
            prompt_tokens_cached=self._counts["cached"],
            generation_tokens=self._counts["generation"],
            request_success=dict(self._success),
            histograms={name: each.distribution() for name, each in self._histograms.items()},
        )
