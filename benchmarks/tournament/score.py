"""What a method did, counted, and the table of all of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

HOUR = 3600.0
HEADINGS = (
    "method",
    "false restarts per 1,000 h",
    "hangs missed",
    "median s to find",
    "requests to busy servers",
    "in a first step",
    "requests killed",
)


@dataclass(frozen=True, order=True)
class Mistake:
    """A false restart, a false alert or a missed hang: whose, on which server, when, what."""

    method: str
    server: str
    workload: str
    at: int
    what: str


@dataclass
class Score:
    """What one method did over some servers.

    ``false`` counts by workload, ``hangs`` and ``missed`` by kind. ``seconds``: from a hang to the
    call, of each that was found. ``told``: those found by calling a person. ``killed``: requests
    that false restarts ended. ``sent_to_unseen``: requests that came to an engine in the first step
    of all that it had to do, which no page shows until it is over.
    """

    healthy_seconds: float = 0.0
    false: Counter[str] = field(default_factory=Counter)
    hangs: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    told: int = 0
    killed: int = 0
    sent_to_busy: int = 0
    sent_to_unseen: int = 0
    sent_to_hung: int = 0
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def healthy_hours(self) -> float:
        """Server-hours without a hang."""
        return self.healthy_seconds / HOUR

    @property
    def false_rate(self) -> float:
        """False restarts per 1,000 healthy server-hours."""
        return 1000 * self.false.total() / self.healthy_hours

    def found(self, kind: str, seconds: float) -> None:
        """A hang was called after so many seconds."""
        self.hangs[kind] += 1
        self.seconds.append(seconds)

    def missed_one(self, kind: str) -> None:
        """A hang was not called in time."""
        self.hangs[kind] += 1
        self.missed[kind] += 1

    def add(self, other: "Score") -> None:
        """Add another's."""
        self.healthy_seconds += other.healthy_seconds
        self.false += other.false
        self.hangs += other.hangs
        self.missed += other.missed
        self.seconds += other.seconds
        self.told += other.told
        self.killed += other.killed
        self.sent_to_busy += other.sent_to_busy
        self.sent_to_unseen += other.sent_to_unseen
        self.sent_to_hung += other.sent_to_hung
        self.mistakes += other.mistakes

    def row(self, name: str) -> tuple[str, ...]:
        """Its row of the table."""
        missed = f"{self.missed.total()} of {self.hangs.total()}"
        if self.told:
            missed += f" ({self.told} by a person called)"
        return (
            name,
            f"{self.false_rate:.1f}",
            missed,
            f"{median(self.seconds):.0f}" if self.seconds else "-",
            str(self.sent_to_busy),
            str(self.sent_to_unseen),
            str(self.killed),
        )


def table(rows: list[tuple[str, ...]], headings: tuple[str, ...] = HEADINGS) -> str:
    """A table in Markdown, columns aligned."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (headings, rule, *rows)
    )


def by_kind(scores: Mapping[str, Score]) -> str:
    """False restarts by workload, then hangs missed by kind, of every method."""
    workloads = sorted({name for score in scores.values() for name in score.false})
    kinds = sorted({name for score in scores.values() for name in score.hangs})
    false = table(
        [
            (workload, *(str(score.false[workload]) for score in scores.values()))
            for workload in workloads
        ],
        ("false restarts by workload", *scores),
    )
    missed = table(
        [
            (kind, *(f"{score.missed[kind]} of {score.hangs[kind]}" for score in scores.values()))
            for kind in kinds
        ],
        ("hangs missed by kind", *scores),
    )
    return f"{false}\n\n{missed}"


def result(scores: Mapping[str, Score], ours: str) -> str:
    """The last line. ``best_other_false`` is the lowest rate of all methods but ours."""
    lifeguard = scores[ours]
    others = [score for name, score in scores.items() if not name.startswith(ours)]
    return (
        f"RESULT lifeguard_false={lifeguard.false_rate:.3g} "
        f"lifeguard_missed={lifeguard.missed.total()} "
        f"lifeguard_busy_requests={lifeguard.sent_to_busy} "
        f"best_other_false={min(score.false_rate for score in others):.3g} "
        f"lifeguard_first_step_requests={lifeguard.sent_to_unseen} "
        f"hours={lifeguard.healthy_hours:.0f}"
    )
