"""How far a restart that was asked for has come, by what the API says of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """What is being done, in order."""

    DECIDE = "decide"
    DRAIN = "save and drain"
    RESTART = "restart"
    LOAD = "load and answer"


@dataclass(frozen=True)
class Step:
    """The phase it is in, for how many seconds, how many are expected (if known), and a word.

    ``waits``: it is decided that it has to wait for another attempt to end.
    """

    phase: Phase
    seconds: float = 0.0
    expected: float | None = None
    said: str = ""
    waits: bool = False


@dataclass(frozen=True)
class End:
    """How it ended: well or not, and one sentence."""

    well: bool
    why: str


def step(incident: Mapping[str, Any], attempt: Mapping[str, Any] | None) -> Step | End:
    """How far it is, by the incident and, once there is one, its attempt."""
    if attempt is not None:
        return _of_attempt(attempt)
    if incident["state"] == "open":
        waits = incident["reason"] == "under_way"
        return Step(Phase.DECIDE, said=incident["why"] or "asked for", waits=waits)
    against = [question for question in incident["questions"] if question["stands_against"]]
    if against:
        last = against[-1]
        return End(well=False, why=f"refused by {last['question']}: {last['said']}")
    return End(well=False, why=f"refused: {incident['why']}")


def _of_attempt(attempt: Mapping[str, Any]) -> Step | End:
    state, now = attempt["state"], attempt["as_of"]
    match state:
        case "planned":
            drained = attempt["drained"] or "evidence is saved, gateways are asked"
            return Step(Phase.DRAIN, _between(attempt["planned_at"], now), said=drained)
        case "acting":
            said = attempt["drained"] or "the restart is under way"
            return Step(Phase.RESTART, _between(attempt["acting_at"], now), said=said)
        case "starting":
            longest, most = attempt["load_seconds"], attempt["patience_seconds"]
            said = _patience(longest, most)
            seconds = _between(attempt["starting_at"], now)
            return Step(Phase.LOAD, seconds, longest or most, said)
    return End(state == "recovered", f"{state}: {attempt['why']}")


def _patience(longest: float | None, most: float | None) -> str:
    if most is None:
        return "nobody knows how long it may take"
    seen = (
        "no load of it was seen yet" if longest is None else f"its longest load took {longest:g} s"
    )
    return f"{seen}, it may take {most:g} s"


def _between(began: str, now: str) -> float:
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(began)).total_seconds()
    return max(0.0, seconds)
