"""The gateway's metrics: names, labels, help and where each value comes from. A public API."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from fleet import __version__
from fleet.family import COUNTER, GAUGE, Family, Value
from gateway.bill import End
from gateway.counts import Counts, Spread, Where
from gateway.outcome import How
from gateway.standing import Standing, Traffic

# What is counted only when it happens is told as 0 before: a rate would miss the first one.
REASONS = (*(how for how in How if how is not How.COMPLETE), "error")
STATUSES = ("400", "401", "403", "404", "405", "409", "410", "413", "429", "431", "500", "503")


@dataclass(frozen=True)
class Scrape:
    """What one scrape is made of; ``now`` is seconds of the loop's clock.

    ``in_flight`` has the model of each request that has no end yet.
    """

    counts: Counts
    standings: Sequence[Standing]
    in_flight: Sequence[str]
    ready: bool
    ledger_lag: float
    now: float


def _backends(scrape: Scrape) -> Iterator[Value]:
    for standing in scrape.standings:
        traffic = standing.traffic(scrape.now)
        for word in Traffic:
            yield (standing.backend.name, word), float(word is traffic)


def _models(scrape: Scrape) -> Iterator[Value]:
    """Of the models that backends list: there is no end of the names that clients think of."""
    counted = Counter(scrape.in_flight)
    for model in sorted({model for x in scrape.standings for model in x.models or ()}):
        yield (model,), counted[model]


def _counted(known: Sequence[str], counts: Counter[str]) -> Iterator[Value]:
    for word in sorted({*known, *counts}):
        yield (word,), counts[word]


FAMILIES: tuple[Family[Scrape], ...] = (
    Family(
        "gateway_ready",
        GAUGE,
        "1 while load balancers may send requests here, 0 once it is closing.",
        (),
        lambda s: [((), float(s.ready))],
    ),
    Family(
        "gateway_in_flight",
        GAUGE,
        "Requests that have no end yet.",
        (),
        lambda s: [((), len(s.in_flight))],
    ),
    Family(
        "gateway_backend_in_flight",
        GAUGE,
        "Requests of this gateway that are at the backend.",
        ("backend",),
        lambda s: [((x.backend.name,), x.in_flight) for x in s.standings],
    ),
    Family(
        "gateway_model_in_flight",
        GAUGE,
        "Requests that have no end yet, by model; those for a model of no backend are not here.",
        ("model",),
        _models,
    ),
    Family(
        "gateway_backend_traffic",
        GAUGE,
        "1 for the word that says whether requests are sent to the backend, 0 for the others.",
        ("backend", "traffic"),
        _backends,
    ),
    Family(
        "gateway_requests_total",
        COUNTER,
        "Requests that were billed, by how they ended.",
        ("end",),
        lambda s: [((end,), s.counts.requests[end]) for end in End],
    ),
    Family(
        "gateway_tokens_total",
        COUNTER,
        "Tokens of requests that were billed, counted at their end.",
        ("kind",),
        lambda s: [
            (("prompt",), s.counts.prompt_tokens),
            (("output",), s.counts.output_tokens),
        ],
    ),
    Family(
        "gateway_resumes_total",
        COUNTER,
        "Times that a request left this backend, which broke it off, and went on at another.",
        ("backend",),
        lambda s: [((x.backend.name,), s.counts.resumes[x.backend.name]) for x in s.standings],
    ),
    Family(
        "gateway_interrupted_total",
        COUNTER,
        "Requests that did not end as they should have, by how.",
        ("reason",),
        lambda s: _counted(REASONS, s.counts.interrupted),
    ),
    Family(
        "gateway_refused_total",
        COUNTER,
        "Requests that the gateway itself answered with an error, by its HTTP status.",
        ("status",),
        lambda s: _counted(STATUSES, s.counts.refusals),
    ),
    Family(
        "gateway_errors_total",
        COUNTER,
        "Errors of the gateway itself that it went on from, by where; each is in its log.",
        ("where",),
        lambda s: [((where,), s.counts.errors[where]) for where in Where],
    ),
    Family(
        "gateway_ledger_lag_seconds",
        GAUGE,
        "How long ago the oldest token was delivered that is in the journal but not in the ledger.",
        (),
        lambda s: [((), s.ledger_lag)],
    ),
    Family(
        "gateway_build_info",
        GAUGE,
        "1, with the gateway's version.",
        ("version",),
        lambda _: [((__version__,), 1.0)],
    ),
)

HISTOGRAMS: Mapping[str, str] = {
    "gateway_request_duration_seconds": "From a request to the end of its answer.",
    "gateway_first_byte_seconds": "From a request to the first byte of its stream.",
    "gateway_overhead_seconds": "From a request to its being sent to a backend: bill and choice.",
}

NAMES: Mapping[str, tuple[str, ...]] = {
    **{family.name: family.labels for family in FAMILIES},
    **dict.fromkeys(HISTOGRAMS, ()),
}


def metrics(scrape: Scrape) -> Iterator[Metric]:
    """All families of one scrape."""
    for family in FAMILIES:
        yield family.metric(scrape)
    counts = scrape.counts
    spreads = (counts.durations, counts.first_bytes, counts.overheads)
    for (name, text), spread in zip(HISTOGRAMS.items(), spreads, strict=True):
        yield _histogram(name, text, spread)


def _histogram(name: str, text: str, spread: Spread) -> Metric:
    family = HistogramMetricFamily(name, text)
    family.add_metric([], buckets=spread.buckets(), sum_value=spread.sum)
    return family
