"""From the raw samples of one target to the looks that they stand for.

All samples of one scrape have the same timestamp, so those of one timestamp are one page. Times are
Unix seconds and serve as the monotonic clock of the judgement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from prometheus_client.samples import Sample

from exporter.backtest.target import NAME, Target, page_labels
from fleet.fetch import Failure, Trouble
from fleet.history import Look
from fleet.reading import Reading, wanted_name

UP = "up"
# Prometheus does not keep why a scrape failed. Taken for an absence it starts the count of silence
# afresh where no start time shows that the process is the same: nothing is claimed for certain that
# a refused connection would make doubtful.
FAILED = Failure(Trouble.UNREACHABLE, "the scrape failed")


@dataclass(frozen=True)
class Series:
    """One series: its labels with its name, and its samples as (Unix seconds, value)."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float]]


def looks(series: Iterable[Series], target: Target, *, after: float) -> list[Look]:
    """The looks at ``target`` later than ``after``, in order of time.

    A successful scrape without a sample of interest is none: pages that bring timestamps of their
    own have their samples elsewhere than ``up``.
    """
    pages: dict[float, list[Sample]] = {}
    failed = set()
    for one in series:
        if Target.of(one.labels) != target:
            continue
        name = one.labels[NAME]
        if name == UP:
            failed |= {at for at, value in one.samples if value == 0 and at > after}
            continue
        known = wanted_name(name)
        if known is None:
            continue
        written = page_labels(one.labels)
        for at, value in one.samples:
            if at > after:
                pages.setdefault(at, []).append(Sample(known, written, value))
    return [
        Look(at, at, FAILED if at in failed else Reading.from_samples(pages[at]))
        for at in sorted(pages.keys() | failed)
    ]


def scrape_interval(times: Sequence[float]) -> float | None:
    """The usual distance of neighbouring times, in seconds to a tenth; None for less than two."""
    distances = [round(later - earlier, 1) for earlier, later in pairwise(times)]
    return median_low(distances) if distances else None
