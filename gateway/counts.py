"""What the gateway counts of its requests, for its metrics."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from gateway.bill import End

SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
CHARGED = frozenset({End.COMPLETE, End.PARTIAL})


class Where(StrEnum):
    """What went wrong when an error of our own was outlived; the values are the metric's labels."""

    CALLBACK = "callback"
    FORGETTING = "forgetting"
    LOOK = "look"
    REQUEST = "request"
    SWEEP = "sweep"


class Spread:
    """How often what lasted how long: a histogram. Belongs to one loop."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.sum += seconds
        for i, bound in enumerate(self.bounds):
            if seconds <= bound:
                self.counts[i] += 1
                return
        self.counts[-1] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as the client library takes them."""
        total, found = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


class Counts:
    """Counts since the program began. Belongs to one loop."""

    def __init__(self) -> None:
        self.requests: Counter[End] = Counter()
        self.interrupted: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.errors: Counter[Where] = Counter()
        self.resumes: Counter[str] = Counter()
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.begun = 0
        self.durations = Spread()
        self.first_bytes = Spread()
        self.overheads = Spread(SHORT_SECONDS)

    def began(self) -> None:
        """A request came in."""
        self.begun += 1

    def ended(self, seconds: float) -> None:
        """It has ended."""
        self.durations.add(seconds)

    def first_byte(self, seconds: float) -> None:
        """Its first byte went out."""
        self.first_bytes.add(seconds)

    def asked(self, seconds: float) -> None:
        """Its first backend is about to be asked."""
        self.overheads.add(seconds)

    def resumed(self, backend: str) -> None:
        """It leaves this backend, and goes on at another."""
        self.resumes[backend] += 1

    def refused(self, why: str) -> None:
        """It was answered by us, with an error."""
        self.refusals[why] += 1

    def failed(self, where: Where) -> None:
        """Something is wrong with ourselves."""
        self.errors[where] += 1

    def closed(self, end: End, how: str, *, prompt_tokens: int, output_tokens: int) -> None:
        """It was billed."""
        self.requests[end] += 1
        if end in CHARGED:
            self.prompt_tokens += prompt_tokens
            self.output_tokens += output_tokens
        if end is not End.COMPLETE:
            self.interrupted[how] += 1
