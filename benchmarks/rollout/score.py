"""What a roll-out did, in figures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rollout.stream import End, Seen


@dataclass(frozen=True)
class Billed:
    """What is charged for a request, in tokens."""

    prompt: int
    completion: int


@dataclass(frozen=True)
class Score:
    """Counts, per cent, seconds.

    ``unbilled_pct``: of the tokens that were delivered. ``overbilled_pct``: tokens that are charged
    and were not delivered, likewise. ``double_prompts``: requests charged for more than their
    prompt. ``text_errors``: streams whose text is not that of a server left alone; of a cut one,
    its beginning. ``whys``: what the clients of cut and refused ones were told, and how often.
    """

    requests: int
    cut: int
    refused_pct: float
    unbilled_pct: float
    overbilled_pct: float
    double_prompts: int
    text_errors: int
    rollout_s: float
    longest_stall_s: float
    whys: Mapping[str, int]


def by_usage(seen: Sequence[Seen]) -> dict[str, Billed]:
    """What a proxy charges that goes by the usage in the last frame: nothing where none came."""
    return {
        one.wanted.request_id: Billed(len(one.wanted.prompt), one.usage)
        for one in seen
        if one.usage is not None
    }


def score(seen: Sequence[Seen], billed: Mapping[str, Billed], rollout_s: float) -> Score:
    """The figures of all that was seen and charged."""
    delivered = unbilled = overbilled = double = wrong = 0
    for one in seen:
        charge = billed.get(one.wanted.request_id, Billed(0, 0))
        tokens = one.tokens
        delivered += tokens
        unbilled += max(0, tokens - charge.completion)
        overbilled += max(0, charge.completion - tokens)
        double += charge.prompt > len(one.wanted.prompt)
        wrong += _is_wrong(one)
    refused = sum(one.end is End.REFUSED for one in seen)
    return Score(
        requests=len(seen),
        cut=sum(one.end is End.CUT for one in seen),
        refused_pct=_per_cent(refused, len(seen)),
        unbilled_pct=_per_cent(unbilled, delivered),
        overbilled_pct=_per_cent(overbilled, delivered),
        double_prompts=double,
        text_errors=wrong,
        rollout_s=rollout_s,
        longest_stall_s=max((one.stall for one in seen if one.end is not End.REFUSED), default=0.0),
        whys=Counter(f"{one.end}: {one.why}" for one in seen if one.end is not End.COMPLETE),
    )


def _is_wrong(one: Seen) -> bool:
    text = one.wanted.text()
    return one.text != text if one.end is End.COMPLETE else not text.startswith(one.text)


def _per_cent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
