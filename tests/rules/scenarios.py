"""The judgement's cases and the recordings as scenarios: what is met with, what is told."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleet.fetch import Failure
from tests.fleet.cases import READ_CASES, pages
from tests.fleet.watching import RECORDINGS

# So many polls meet with one recorded page: a whole wait, which is not yet two.
HELD = 4
GOES_ON = 12


@dataclass(frozen=True)
class Scenario:
    """``met``: each poll's page, or why there was none.

    ``fires``: (alert, engine) that hold at the end, for no other engine at any moment. ``never``:
    alerts that hold at no moment. ``state``: the backend's at the end, where the case says so.
    """

    name: str
    met: tuple[str | Failure, ...]
    fires: frozenset[tuple[str, str]] = frozenset()
    never: frozenset[str] = frozenset()
    state: str | None = None

    def going_on(self, more: int) -> "Scenario":
        """The same with its last page met again and again, but for a page of several engines.

        There it would stop the engines that have to move beside the one that hangs.
        """
        if 'engine="1"' in str(self.met[-1]):
            return self
        return replace(self, met=self.met + self.met[-1:] * more)


STUCK = "VLLMEngineStuck"
BY_STATE = {"stuck": STUCK, "quiet": "VLLMEngineQuiet", "starved": "VLLMEngineStarved"}


def from_case(case: Mapping[str, Any]) -> Scenario:
    expect = case["expect"]
    by_engine = expect if "engines" in case else {"0": expect.get("state")}
    fires = {(BY_STATE[state], engine) for engine, state in by_engine.items() if state in BY_STATE}
    if "fires" in expect:
        fires.add((expect["fires"], "0"))
    never = expect.get("never", [])
    named = {never} if isinstance(never, str) else set(never)
    # Nobody is restarted who is not called stuck, whether or not the case says so.
    named |= set() if any(alert == STUCK for alert, _ in fires) else {STUCK}
    return Scenario(
        case["id"], tuple(pages(case)), frozenset(fires), frozenset(named), expect.get("state")
    )


def recorded_pages(name: str) -> tuple[str, ...]:
    return tuple(file.read_text() for file in sorted((RECORDINGS / name).glob("*.prom")))


def slowly(met: Iterable[str]) -> Iterator[str]:
    for page in met:
        yield from [page] * HELD


def from_recording(name: str) -> Scenario:
    hung = HANGS.get(name, frozenset())
    fires = frozenset((STUCK, engine) for engine in hung)
    never = frozenset() if hung else frozenset({STUCK})
    met = tuple(slowly(recorded_pages(name)))
    played = Scenario(f"recording-{name}", met, fires, never)
    return played.going_on(GOES_ON) if hung else played


# The engines that hang in a recording; in all others none does, or only a short request can tell.
HANGS = {
    "frozen-while-running": frozenset({"0"}),
    "engine-killed": frozenset({"0"}),
    "dp2-one-engine-frozen": frozenset({"0"}),
}
RECORDED = sorted(folder.name for folder in RECORDINGS.iterdir())
SCENARIOS = (
    *(from_case(case) for case in READ_CASES),
    *(from_recording(name) for name in RECORDED),
)
