"""Which looks a server saw, and how late each was."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """One request as the server logged it: Unix seconds, the address, the form of the page."""

    at: float
    address: str
    form: str


def looks(lines: Iterable[str]) -> list[Look]:
    """The looks of an access log of ``seconds address form`` lines; others are left out."""
    found = []
    for line in lines:
        parts = line.split()
        if len(parts) == 3 and parts[2] in ("full", "filtered"):  # noqa: PLR2004 -- as written there
            found.append(Look(float(parts[0]), parts[1], parts[2]))
    return found


def lateness(seen: Sequence[Look], interval: float) -> list[float]:
    """How many seconds each look came after its place on its backend's grid.

    The earliest of a backend's looks, taken back by whole intervals, is on time by definition: the
    others are late by what they come after it.
    """
    late = []
    by_address: dict[str, list[float]] = defaultdict(list)
    for look in seen:
        by_address[look.address].append(look.at)
    for times in by_address.values():
        first = times[0]
        offsets = [at - first - interval * round((at - first) / interval) for at in times]
        earliest = min(offsets)
        late += [offset - earliest for offset in offsets]
    return late


def percentile(values: Sequence[float], part: float) -> float:
    """The value that ``part`` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
