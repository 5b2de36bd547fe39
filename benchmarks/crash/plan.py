"""Which boundaries the next incident's processes are killed at: those that were least, first."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from benchmarks.crash.boundary import Kill

MOST_TIMES = 4
# Not every process comes to the boundary that it was to be killed at: then that is tried again.
KILLED_WEIGHT = 3
LATEST_SECONDS = 4.0


@dataclass(frozen=True)
class AtRandom:
    """A kill so many seconds after the process was started, wherever it then is."""

    after: float


@dataclass
class Plan:
    """Boundaries become known by coming to them: many lie behind a kill."""

    random: Random
    known: dict[str, int] = field(default_factory=dict)
    tried: Counter[str] = field(default_factory=Counter)

    def killed(self, names: Iterable[str]) -> None:
        """Where an incident's processes were killed, as planned or not."""
        for name in names:
            self.tried[name] += KILLED_WEIGHT

    def seen(self, times: Counter[str]) -> None:
        """How often one process came to each boundary."""
        for name, count in times.items():
            self.known[name] = max(count, self.known.get(name, 0))

    def next(self, kills: int) -> list[Kill | AtRandom]:
        """The kills of one incident; without known boundaries, none."""
        if not self.known:
            return []
        chosen: list[Kill | AtRandom] = []
        for _ in range(kills - 1):
            fewest = min(self.tried[name] for name in self.known)
            names = sorted(name for name in self.known if self.tried[name] == fewest)
            name = self.random.choice(names)
            self.tried[name] += 1
            nth = self.random.randint(1, min(MOST_TIMES, self.known[name]))
            chosen.append(Kill(name, nth))
        return [*chosen, AtRandom(self.random.uniform(0.0, LATEST_SECONDS))]
