"""How a restart is watched: by what the API says, through silence, to its end."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from remediator.commands.course import End, Phase, Step, step
from remediator.commands.exit_status import CommandError, ExitStatus
from remediator.commands.watch import Patience, Watch

QUICK = Patience(every=0.01, silent=0.1, undecided=0.1)
NOW = "2026-03-01T12:01:00Z"


def incident(**changed: object) -> dict[str, Any]:
    return {
        "state": "open",
        "reason": None,
        "why": "",
        "questions": [],
        "attempts": [],
    } | changed


def attempt(state: str, **changed: object) -> dict[str, Any]:
    return {
        "id": 7,
        "state": state,
        "as_of": NOW,
        "why": "a new process",
        "drained": "",
        "planned_at": "2026-03-01T12:00:00Z",
        "acting_at": "2026-03-01T12:00:20Z",
        "starting_at": "2026-03-01T12:00:50Z",
        "load_seconds": None,
        "patience_seconds": 600.0,
    } | changed


def against(said: str) -> list[dict[str, object]]:
    return [
        {"question": "held", "said": "nobody", "stands_against": False},
        {"question": "cooling_down", "said": said, "stands_against": True},
    ]


STEPS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any] | None, Step | End]] = {
    "asked for": (incident(), None, Step(Phase.DECIDE, said="asked for")),
    "another attempt is under way": (
        incident(reason="under_way", why="attempt 3 is starting"),
        None,
        Step(Phase.DECIDE, said="attempt 3 is starting", waits=True),
    ),
    "refused": (
        incident(state="closed", questions=against("too soon")),
        None,
        End(well=False, why="refused by cooling_down: too soon"),
    ),
    "refused without a question": (
        incident(state="closed", why="the alert is resolved"),
        None,
        End(well=False, why="refused: the alert is resolved"),
    ),
    "planned": (
        incident(),
        attempt("planned"),
        Step(Phase.DRAIN, 60.0, None, "evidence is saved, gateways are asked"),
    ),
    "draining": (
        incident(),
        attempt("planned", drained="3 streams are left"),
        Step(Phase.DRAIN, 60.0, None, "3 streams are left"),
    ),
    "acting": (
        incident(),
        attempt("acting", drained="no stream is left"),
        Step(Phase.RESTART, 40.0, None, "no stream is left"),
    ),
    "starting, for the first time": (
        incident(),
        attempt("starting"),
        Step(Phase.LOAD, 10.0, 600.0, "no load of it was seen yet, it may take 600 s"),
    ),
    "starting, as seen before": (
        incident(),
        attempt("starting", load_seconds=40.0, patience_seconds=80.0),
        Step(Phase.LOAD, 10.0, 40.0, "its longest load took 40 s, it may take 80 s"),
    ),
    "of a backend that is not in fleet.yml any more": (
        incident(),
        attempt("starting", patience_seconds=None),
        Step(Phase.LOAD, 10.0, None, "nobody knows how long it may take"),
    ),
    "recovered": (incident(), attempt("recovered"), End(well=True, why="recovered: a new process")),
    "not back": (
        incident(),
        attempt("not_back", why="refused"),
        End(well=False, why="not_back: refused"),
    ),
    "by a clock that went back": (
        incident(),
        attempt("acting", acting_at="2026-03-01T12:02:00Z"),
        Step(Phase.RESTART, 0.0, None, "the restart is under way"),
    ),
}


@pytest.mark.parametrize(("asked", "tried", "expected"), STEPS.values(), ids=list(STEPS))
def test_how_far_it_is(
    asked: Mapping[str, Any], tried: Mapping[str, Any] | None, expected: Step | End
) -> None:
    assert step(asked, tried) == expected


class FakeRemote:
    """Answers the n-th question for an incident with ``says(n)``."""

    def __init__(self, says: Callable[[int], dict[str, Any]]) -> None:
        self._says = says
        self.asked = 0

    def get(self, what: str, number: int) -> dict[str, Any]:
        if what == "attempts":
            return attempt("recovered", id=number)
        self.asked += 1
        return self._says(self.asked)


def watched(says: Callable[[int], dict[str, Any]]) -> tuple[End, list[Step], Watch]:
    told: list[Step] = []
    watch = Watch(FakeRemote(says), 1, QUICK)  # type: ignore[arg-type]
    return watch.to_its_end(told.append), told, watch


def test_it_is_watched_until_its_attempt_has_ended() -> None:
    end, told, watch = watched(
        lambda n: incident() if n < 3 else incident(attempts=[attempt("starting")])
    )
    assert end == End(well=True, why="recovered: a new process")
    assert told == [Step(Phase.DECIDE, said="asked for")] * 2
    assert watch.attempt == 7


def test_a_remediator_that_is_away_for_a_while_is_waited_for() -> None:
    def says(n: int) -> dict[str, Any]:
        if n < 4:
            raise CommandError("refused", ExitStatus.UNREACHABLE)
        return incident(attempts=[attempt("starting")])

    assert watched(says)[0].well


def test_one_that_stays_away_is_not() -> None:
    def says(_: int) -> dict[str, Any]:
        raise CommandError("refused", ExitStatus.UNREACHABLE)

    with pytest.raises(CommandError, match="refused"):
        watched(says)


def test_what_is_not_decided_about_is_not_waited_for_for_ever() -> None:
    with pytest.raises(CommandError) as raised:
        watched(lambda _: incident())
    assert str(raised.value) == "incident 1 was not decided about within 0.1 s; it stays open"
    assert raised.value.status is ExitStatus.REFUSED


def test_what_waits_for_another_attempt_is_waited_for() -> None:
    waiting = incident(reason="under_way", why="attempt 3 is starting")
    end, told, _ = watched(
        lambda n: waiting if n < 30 else incident(state="closed", questions=against("too soon"))
    )
    assert not end.well
    assert len(told) == 29
