"""A Prometheus histogram without a registry."""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Distribution:
    """A histogram at one moment; ``cumulative`` ends with the count of everything."""

    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        """Observations so far."""
        return self.cumulative[-1]


class Histogram:
    """Counts observations by upper bound; ``bounds`` rises and leaves out infinity."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self._sum += value

    def distribution(self) -> Distribution:
        """What was counted so far."""
        return Distribution(self.bounds, tuple(accumulate(self._counts)), self._sum)
