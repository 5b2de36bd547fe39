"""What a relay costs, told from what its clients saw and from what they saw without it."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.exporter.looks import percentile
from benchmarks.gateway.load import Plan, Seen

# With fewer events than this share of those that were due, it is at its limit.
KEEPS_UP = 0.95


@dataclass(frozen=True)
class Figures:
    """One relay under one load. Seconds, but for ``cpu_us``: CPU microseconds per event.

    ``core``: the share of its core that it used. What is added is against the same load without a
    relay, infinite where it cannot be told. ``memory_kb``: per stream.
    """

    rate: float
    keeps_up: bool
    cpu_us: float
    core: float
    first_p50: float
    first_p99: float
    gap_p99: float
    memory_kb: float
    whole: float


def figures(plan: Plan, seen: Seen, direct: Seen) -> Figures:
    """The relay's figures."""
    due = KEEPS_UP * plan.rate * plan.streams
    rate = seen.events / seen.seconds
    if direct.seconds and direct.events / direct.seconds < due:
        # Server and clients are at their limit themselves: their times say nothing of the relay.
        direct = Seen()
    return Figures(
        rate=rate,
        keeps_up=rate >= due,
        cpu_us=seen.cpu / seen.events * 1e6 if seen.events else float("inf"),
        core=seen.cpu / seen.seconds,
        first_p50=_added(seen.firsts, direct.firsts, 0.5),
        first_p99=_added(seen.firsts, direct.firsts, 0.99),
        gap_p99=_added(seen.gaps, direct.gaps, 0.99),
        memory_kb=seen.rss * 1e3 / plan.streams,
        whole=seen.whole / plan.streams,
    )


def _added(with_relay: Sequence[float], without: Sequence[float], part: float) -> float:
    if not with_relay or not without:
        return float("inf")
    return percentile(with_relay, part) - percentile(without, part)
