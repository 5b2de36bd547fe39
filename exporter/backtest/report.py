"""What a backtest came to: its sums, and the wait it suggests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporter.backtest.episode import End, Episode, Healed
from exporter.backtest.target import Target
from exporter.backtest.watched import Watched, restarts
from fleet.judgement import WAITS_OF_PROOF

# A silence is known to one scrape interval; next month's may be a little longer than any so far.
MARGIN = 1.2
ROUNDED_TO_SECONDS = 5
# The exporter takes no wait under two of its own intervals, 15 s by default.
LEAST_WAIT = 30.0


@dataclass(frozen=True)
class TargetReport:
    """One target that was watched; ``interval`` is its longest scrape interval, as measured."""

    target: Target
    name: str
    watched: Watched
    interval: float

    @property
    def suggested_wait(self) -> float | None:
        """The shortest wait that its healed silences allow; None where there was none."""
        healed = self.watched.longest
        return None if healed is None else suggested_wait(healed)


@dataclass(frozen=True)
class Report:
    """All targets, ordered by name. Times are Unix seconds, ``wait`` is in seconds."""

    prometheus: str
    since: int
    until: int
    wait: float
    targets: Sequence[TargetReport]
    warnings: Sequence[str] = ()

    @property
    def episodes(self) -> list[tuple[TargetReport, Episode]]:
        """Every proven hang with its target, the earliest first."""
        found = [(one, episode) for one in self.targets for episode in one.watched.episodes]
        return sorted(found, key=lambda pair: (pair[1].proven_at, pair[0].name, pair[1].engine))

    @property
    def restarts(self) -> int:
        """Would-be restarts. Engines of one server that hang together are one."""
        return sum(restarts(one.watched.episodes) for one in self.targets)

    @property
    def ends(self) -> Mapping[End, int]:
        """How many of the proven hangs ended how."""
        ends = [episode.end for _, episode in self.episodes]
        return {end: ends.count(end) for end in End}

    @property
    def engine_hours(self) -> float:
        """Hours looked at, summed over engines."""
        return sum(one.watched.engine_seconds for one in self.targets) / 3600

    @property
    def longest(self) -> tuple[TargetReport, Healed] | None:
        """The healed silence that asks most of a wait, and where it was."""
        found = [(one, one.watched.longest) for one in self.targets if one.watched.longest]
        return max(found, key=lambda pair: pair[1].seconds + pair[1].interval, default=None)

    @property
    def suggested_wait(self) -> float | None:
        """The shortest wait that the healed silences of all targets allow."""
        return max((one.suggested_wait or 0.0 for one in self.targets), default=0.0) or None


def suggested_wait(longest: Healed) -> float:
    """Two of it exceed the longest healed silence and one scrape interval by a fifth."""
    least = MARGIN * (longest.seconds + longest.interval) / WAITS_OF_PROOF
    return max(LEAST_WAIT, math.ceil(least / ROUNDED_TO_SECONDS) * float(ROUNDED_TO_SECONDS))
