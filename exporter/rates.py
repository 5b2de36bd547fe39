"""What each of the last looks at an engine gave: steps per second, or why there is no number.

Invariant: a rate belongs to one process and to two good readings of it. Where a read failed or
the process changed there is a look without a rate, so that no line can be drawn across it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleet.engine import EngineHistory
from fleet.history import History

MOST_LOOKS = 60


class Seen(StrEnum):
    """What one look at an engine showed.

    STEPS: steps that gave an output token. MOVED: none, but the engine wrote something (a long
    prompt is read, say). SILENT: nothing moved and work was pending. STILL: nothing moved and
    nothing was to be done. FIRST: no earlier reading to compare with. RESTARTED: the first reading
    of another process. FAILED: no reading.
    """

    STEPS = "steps"
    MOVED = "moved"
    SILENT = "silent"
    STILL = "still"
    FIRST = "first"
    RESTARTED = "restarted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Glance:
    """One look at one engine, at ``at`` (monotonic seconds).

    ``step_rate`` is in steps per second since the good reading before; None where there was no
    reading, or none before it of the same process.
    """

    at: float
    step_rate: float | None
    seen: Seen


# By engine; the latest look last, MOST_LOOKS of them at most.
Rates = Mapping[str, tuple[Glance, ...]]


def step_rate(engine: EngineHistory) -> float | None:
    """Steps per second between the two last good readings; None after the first."""
    if engine.progress is None or engine.over <= 0:
        return None
    return max(0.0, engine.progress.steps) / engine.over


def rates_after(rates: Rates, history: History, at: float) -> Rates:
    """The rates with one more look in them: the one that ``history`` ends with, at ``at``.

    Engines that the page no longer shows are forgotten.
    """
    return {
        name: (*rates.get(name, ())[1 - MOST_LOOKS :], _glance(history, engine, at))
        for name, engine in history.engines.items()
    }


def _glance(history: History, engine: EngineHistory, at: float) -> Glance:
    if history.failure is not None:
        return Glance(at, None, Seen.FAILED)
    if engine.progress is None:
        return Glance(at, None, Seen.RESTARTED if history.just_restarted else Seen.FIRST)
    rate = step_rate(engine)
    if rate:
        return Glance(at, rate, Seen.STEPS)
    if engine.moved:
        return Glance(at, rate, Seen.MOVED)
    return Glance(at, rate, Seen.SILENT if engine.quiet.seconds > 0 else Seen.STILL)
