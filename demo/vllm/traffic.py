"""What the API server counts about requests it has answered: the ``http_*`` series."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from demo.vllm.histogram import Distribution, Histogram

UNCOUNTED = ("/metrics", "/health", "/load", "/ping", "/version", "/sim")
DURATION = (0.1, 0.5, 1)
DURATION_FINE = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5),
    *(7.5, 10, 30, 60),
)


@dataclass(frozen=True)
class Exchange:
    """One request and its answer; sizes in bytes as far as ``Content-Length`` told them."""

    handler: str
    method: str
    status: int
    request_bytes: int
    response_bytes: int
    seconds: float


@dataclass(frozen=True)
class Tallied:
    """The ``http_*`` series at one moment."""

    responses: Mapping[tuple[str, str, str], int]
    request_bytes: Mapping[str, int]
    response_bytes: Mapping[str, int]
    durations: Mapping[tuple[str, str], Distribution]
    all_durations: Distribution
    created: Mapping[str, float]


class Traffic:
    """Adds up exchanges, but for the pages an operator looks at; ``now`` is wall clock seconds."""

    def __init__(self) -> None:
        self._responses: Counter[tuple[str, str, str]] = Counter()
        self._request_bytes: Counter[str] = Counter()
        self._response_bytes: Counter[str] = Counter()
        self._durations: dict[tuple[str, str], Histogram] = {}
        self._all_durations = Histogram(DURATION_FINE)
        self._created: dict[str, float] = {}

    def add(self, exchange: Exchange, now: float) -> None:
        """Count one exchange that is over."""
        handler, method = exchange.handler, exchange.method
        if handler.startswith(UNCOUNTED):
            return
        self._created.setdefault(handler, now)
        self._responses[handler, method, f"{exchange.status // 100}xx"] += 1
        self._request_bytes[handler] += exchange.request_bytes
        self._response_bytes[handler] += exchange.response_bytes
        durations = self._durations.setdefault((handler, method), Histogram(DURATION))
        for histogram in (durations, self._all_durations):
            histogram.observe(exchange.seconds)

    def tallied(self) -> Tallied:
        """Everything so far, as a value of its own."""
        return Tallied(
            responses=dict(self._responses),
            request_bytes=dict(self._request_bytes),
            response_bytes=dict(self._response_bytes),
            durations={key: each.distribution() for key, each in self._durations.items()},
            all_durations=self._all_durations.distribution(),
            created=dict(self._created),
        )
