"""What the restarts that were not made in shadow mode tell about making them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import TypedDict

from fleet.settings import Mode
from remediator.incident import Attempt, ShadowOutcome

FEWEST_CASES = 3
WAITS_OF_PROOF = 2
# A recommended wait is a round number of seconds.
ROUND_TO = 10
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True)
class Patience:
    """One backend's ``wait``, and for how long it is watched before a restart; in seconds."""

    wait: float
    confirm_for: float


class Spread(TypedDict):
    """Seconds."""

    shortest: float
    median: float
    longest: float


class ShadowRow(TypedDict):
    """One backend."""

    backend: str
    cases: int
    came_back: int
    restarted: int
    stayed_stuck: int
    not_seen: int
    watched: int


class Report(TypedDict):
    """All of it, in the words of docs/remediator-api.md."""

    mode: Mode
    cases: int
    outcomes: dict[ShadowOutcome, int]
    watched: int
    interrupted: int
    came_back_after: Spread | None
    would_have_acted_within_seconds: float | None
    backends: list[ShadowRow]
    sentences: list[str]
    supports_act: bool | None
    change: str | None


def report(mode: Mode, attempts: Sequence[Attempt], patience: Mapping[str, Patience]) -> Report:
    """What these attempts in shadow mode tell; ``patience`` is that of each backend there is now.

    A case is one whose server came back, was restarted or stayed stuck: what was not seen, or is
    still being watched, tells nothing. ``supports_act`` is None where there are too few.
    """
    ended = [attempt for attempt in attempts if attempt.shadow_outcome is not None]
    outcomes = Counter(a.shadow_outcome for a in ended if a.shadow_outcome)
    cases = [a for a in ended if a.shadow_outcome is not ShadowOutcome.NOT_SEEN]
    healed = _of(cases, ShadowOutcome.CAME_BACK)
    recommended = _recommended(mode, cases, patience)
    return {
        "mode": mode,
        "cases": len(cases),
        "outcomes": {outcome: outcomes[outcome] for outcome in ShadowOutcome},
        "watched": sum(attempt.under_way for attempt in attempts),
        "interrupted": len(attempts) - len(ended) - sum(a.under_way for a in attempts),
        "came_back_after": _spread([_took(a) for a in healed]) if healed else None,
        "would_have_acted_within_seconds": _delay(cases),
        "backends": _rows(attempts),
        "sentences": [*_came_back(cases, patience), *_stuck(cases), recommended.sentence],
        "supports_act": recommended.supports_act,
        "change": recommended.change,
    }


@dataclass(frozen=True)
class _Recommended:
    sentence: str
    supports_act: bool | None
    change: str | None = None


def _recommended(
    mode: Mode, cases: Sequence[Attempt], patience: Mapping[str, Patience]
) -> _Recommended:
    healed = _of(cases, ShadowOutcome.CAME_BACK)
    if len(cases) < FEWEST_CASES:
        return _Recommended(
            f"Too little to tell: {_cases(len(cases))}, and {FEWEST_CASES} are needed. "
            "Leave the mode as it is.",
            None,
        )
    if healed:
        waits = _waits(healed, patience)
        first = "Change fleet.yml as said" if waits else "Find out why"
        return _Recommended(
            "This does not support the mode act. "
            f"{first}, then look again at what comes after that (--since).",
            supports_act=False,
            change="\n".join(f"wait: {_written(wait)}  # {name}" for name, wait in waits.items())
            or None,
        )
    if mode is Mode.ACT:
        return _Recommended(
            "This supports the mode act, which is set.", supports_act=True, change=None
        )
    return _Recommended(
        "This supports switching to act: nothing would have been restarted for nothing. "
        "In fleet.yml, under remediator, set mode: act",
        supports_act=True,
        change="mode: act",
    )


def _came_back(cases: Sequence[Attempt], patience: Mapping[str, Patience]) -> list[str]:
    healed = _of(cases, ShadowOutcome.CAME_BACK)
    if not cases:
        return []
    if not healed:
        return [f"In none of {_cases(len(cases))} the server came back by itself."]
    took = _spread([_took(attempt) for attempt in healed])
    said = (
        f"In {len(healed)} of {_cases(len(cases))} the server came back by itself, soonest after "
        f"{in_words(took['shortest'])}, at the median after {in_words(took['median'])}, at the "
        f"latest after {in_words(took['longest'])}; a restart would have been for nothing there."
    )
    gone = sorted({attempt.backend for attempt in healed} - set(patience))
    return [
        said,
        *(
            f"Raise wait of {name} above {_written(patience[name].wait)}: {_written(wait)} or more."
            for name, wait in _waits(healed, patience).items()
        ),
        *(f"{name} is not in fleet.yml any more." for name in gone),
    ]


def _stuck(cases: Sequence[Attempt]) -> list[str]:
    told = []
    stayed = _of(cases, ShadowOutcome.STAYED_STUCK)
    restarted = _of(cases, ShadowOutcome.RESTARTED)
    delay = _delay(cases)
    acted = "" if delay is None else f" lifeguard would have acted within {in_words(delay)}."
    if restarted:
        after = median(_took(attempt) for attempt in restarted)
        told.append(
            f"{_verb(len(restarted), 'was', 'were')} restarted by somebody else, after a median of "
            f"{in_words(after)} more;{acted}"
        )
    if stayed:
        watched = min(_took(attempt) for attempt in stayed)
        told.append(
            f"{_verb(len(stayed), 'stayed', 'stayed')} stuck for as long as it was watched, "
            f"{in_words(watched)} or more;{acted}"
        )
    return told


def _waits(healed: Sequence[Attempt], patience: Mapping[str, Patience]) -> dict[str, float]:
    """For each backend, the wait whose two are longer than each silence that healed by itself.

    The silence had lasted two waits and ``confirm_for`` when the restart was decided on.
    """
    silences: dict[str, float] = {}
    for attempt in healed:
        if attempt.backend in patience:
            of = patience[attempt.backend]
            silence = WAITS_OF_PROOF * of.wait + of.confirm_for + _took(attempt)
            silences[attempt.backend] = max(silence, silences.get(attempt.backend, 0.0))
    return {
        name: (math.floor(silence / WAITS_OF_PROOF / ROUND_TO) + 1.0) * ROUND_TO
        for name, silence in sorted(silences.items())
    }


def _rows(attempts: Sequence[Attempt]) -> list[ShadowRow]:
    rows: list[ShadowRow] = []
    for name in sorted({attempt.backend for attempt in attempts}):
        ours = [attempt for attempt in attempts if attempt.backend == name]
        many = Counter(attempt.shadow_outcome for attempt in ours)
        rows.append(
            {
                "backend": name,
                "cases": len(ours) - many[None] - many[ShadowOutcome.NOT_SEEN],
                "came_back": many[ShadowOutcome.CAME_BACK],
                "restarted": many[ShadowOutcome.RESTARTED],
                "stayed_stuck": many[ShadowOutcome.STAYED_STUCK],
                "not_seen": many[ShadowOutcome.NOT_SEEN],
                "watched": sum(attempt.under_way for attempt in ours),
            }
        )
    return rows


def _of(cases: Sequence[Attempt], outcome: ShadowOutcome) -> list[Attempt]:
    return [attempt for attempt in cases if attempt.shadow_outcome is outcome]


def _took(attempt: Attempt) -> float:
    """Seconds from when it would have been restarted to the end of the watch."""
    return (attempt.last_at - attempt.planned_at).total_seconds()


def _delay(cases: Sequence[Attempt]) -> float | None:
    """The longest from a decision to when the command would have been run, in seconds."""
    delays = [(a.starting_at - a.planned_at) for a in cases if a.starting_at is not None]
    return max(delays, default=timedelta()).total_seconds() if delays else None


def _spread(seconds: Sequence[float]) -> Spread:
    return {"shortest": min(seconds), "median": median(seconds), "longest": max(seconds)}


def _cases(many: int) -> str:
    return f"{many} case{'' if many == 1 else 's'}"


def _verb(many: int, one: str, several: str) -> str:
    return f"{many} {one if many == 1 else several}"


def in_words(seconds: float) -> str:
    """A duration in its one or two largest units."""
    if seconds < MINUTE:
        return f"{math.ceil(seconds)} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    if seconds < DAY:
        large, small = f"{seconds // HOUR:.0f} h", f"{seconds % HOUR // MINUTE:.0f} min"
    else:
        large, small = f"{seconds // DAY:.0f} d", f"{seconds % DAY // HOUR:.0f} h"
    return large if small.startswith("0 ") else f"{large} {small}"


def _written(seconds: float) -> str:
    """A duration as fleet.yml writes it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes and rest else f"{minutes}m" if minutes else f"{rest}s"
