"""The small graph of one engine's step rate, as shapes for an SVG of WIDTH by HEIGHT.

Invariant: no line is drawn across a failed read or from one process to another. A look that
counted no step but saw something move has a dot under the line, and silence with work pending has
a bar there, so that a flat line alone is never read as a hang.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from exporter.rates import Seen
from exporter.view import LookRow

WIDTH = 240
HEIGHT = 40
# The plot's highest and lowest line, and the middle of the rail under it.
TOP, BASE, RAIL = 3, 30, 36
_MANY = {
    Seen.MOVED: "{} without a step in which something moved",
    Seen.SILENT: "{} silent with work pending",
    Seen.FAILED: "{} failed",
    Seen.RESTARTED: "{} at a new process",
}


@dataclass(frozen=True)
class Sparkline:
    """SVG path data by what they show, empty where there is nothing of it, and it all in words."""

    line: str
    moved: str
    silent: str
    failed: str
    restarted: str
    words: str


@dataclass(frozen=True)
class _Spot:
    x: int
    look: LookRow


def sparkline(looks: Sequence[LookRow], span: float) -> Sparkline:
    """The graph of these looks (the latest last) over the last ``span`` seconds."""
    spots = [
        _Spot(round(WIDTH - 2 - (WIDTH - 4) * look["age_seconds"] / span), look)
        for look in looks
        if look["age_seconds"] <= span
    ]
    top = highest([spot.look for spot in spots])
    return Sparkline(
        line="".join(_stretch(stretch, top) for stretch in _stretches(spots)),
        moved="".join(f"M{x} {RAIL}h0" for x in _where(spots, Seen.MOVED)),
        silent="".join(_silences(spots)),
        failed="".join(f"M{x - 2} {RAIL - 2}l4 4m0-4l-4 4" for x in _where(spots, Seen.FAILED)),
        restarted="".join(f"M{x} 0V{HEIGHT}" for x in _where(spots, Seen.RESTARTED)),
        words=_words([spot.look for spot in spots], top),
    )


def highest(looks: Sequence[LookRow]) -> float:
    """The highest step rate of these looks, 0 where there is none."""
    return max((look["step_rate"] or 0.0 for look in looks), default=0.0)


def number(rate: float) -> str:
    """A rate with two or three digits that matter."""
    if rate >= 100 or rate == 0:  # noqa: PLR2004 -- three digits before the point are enough
        return f"{rate:.0f}"
    return f"{rate:.3g}" if rate >= 1 else f"{rate:.2g}"


def _stretches(spots: Sequence[_Spot]) -> Iterator[list[_Spot]]:
    """The unbroken runs of looks that have a rate."""
    stretch: list[_Spot] = []
    for spot in spots:
        if spot.look["step_rate"] is not None:
            stretch.append(spot)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _stretch(stretch: Sequence[_Spot], top: float) -> str:
    """One unbroken line; what lies on a level between its neighbours needs no point."""
    points = [(spot.x, _height(spot.look["step_rate"] or 0.0, top)) for spot in stretch]
    kept = [
        point
        for i, point in enumerate(points)
        if i in (0, len(points) - 1) or not points[i - 1][1] == point[1] == points[i + 1][1]
    ]
    (x, y), *others = kept
    # A line of no length shows as a dot.
    return f"M{x} {y:g}" + ("".join(f"L{x} {y:g}" for x, y in others) or "h0")


def _height(rate: float, top: float) -> float:
    return round(BASE - (BASE - TOP) * rate / top, 1) if top else BASE


def _where(spots: Sequence[_Spot], seen: Seen) -> Iterator[int]:
    return (spot.x for spot in spots if spot.look["seen"] == seen)


def _silences(spots: Sequence[_Spot]) -> Iterator[str]:
    """A bar from the look before to each silent one."""
    for before, spot in pairwise(spots):
        if spot.look["seen"] == Seen.SILENT:
            yield f"M{before.x} {RAIL}H{spot.x}"


def _words(looks: Sequence[LookRow], top: float) -> str:
    if not looks:
        return "Steps per second: no look yet."
    last = looks[-1]["step_rate"]
    now = "no reading now" if last is None else f"{number(last)} now"
    rates = [look["step_rate"] for look in looks if look["step_rate"] is not None]
    ends = f", between {number(min(rates))} and {number(top)}" if rates else ""
    seen = [look["seen"] for look in looks]
    notes = [text.format(seen.count(what)) for what, text in _MANY.items() if what in seen]
    of = f"; of {len(looks)} looks {', '.join(notes)}" if notes else f"; in {len(looks)} looks"
    return f"Steps per second: {now}{ends}{of}."
