"""What the marks of a graph mean, each with a small example made as the graphs are."""

from dataclasses import dataclass, replace

from exporter.rates import Seen
from exporter.sparkline import Sparkline, sparkline
from exporter.view import LookRow


@dataclass(frozen=True)
class Example:
    """A graph and what it means."""

    shapes: Sparkline
    meaning: str


_RATES = (6.0, 7.0, 6.5, 8.0, 7.5, 6.0, 7.0, 6.5)
_BUSY = [(Seen.STEPS, rate) for rate in _RATES]


def _example(meaning: str, *end: tuple[Seen, float | None]) -> Example:
    """Of busy looks and these at the end; the left half is not shown."""
    looks = [*_BUSY * 3, *end][-24:]
    rows: list[LookRow] = [
        {"age_seconds": float(len(looks) - 1 - i), "step_rate": rate, "seen": seen}
        for i, (seen, rate) in enumerate(looks)
    ]
    return Example(replace(sparkline(rows, len(looks) - 1), words=f"Example: {meaning}"), meaning)


LEGEND = (
    _example("steps are counted: tokens come out"),
    _example(
        "dots: no step was counted, but something moved (a long prompt is read): it works",
        *[(Seen.MOVED, 0.0)] * 7,
    ),
    _example("bar: work was pending and nothing at all moved: silence", *[(Seen.SILENT, 0.0)] * 7),
    _example("flat, without a mark: nothing to do, and nothing done", *[(Seen.STILL, 0.0)] * 7),
    _example("crosses in a gap: reads failed", *[(Seen.FAILED, None)] * 3, *_BUSY[:4]),
    _example("dashed upright: another process from here on", (Seen.RESTARTED, None), *_BUSY[:6]),
)
