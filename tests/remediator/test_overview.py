"""How a backend stands: each situation, and what goes before what."""

from typing import Any

import pytest

from fleet.backend import Backend, Kind, Restart
from fleet.settings import Mode
from fleet.way import Command, Docker, Kubernetes, Systemd, Way
from remediator.decision import Action, Reason
from remediator.incident import Attempt, AttemptState, Incident, Origin
from remediator.overview import Known, Situation, backend_row, fleet_row, way_in_words
from remediator.record import EVERY_BACKEND, HoldBack, Record
from tests.remediator import making
from tests.remediator.making import T0, at


def known(
    *incidents: Incident,
    attempts: tuple[Attempt, ...] = (),
    backend: Backend | None = None,
    limits: dict[str, Any] | None = None,
    **changed: Any,  # noqa: ANN401 -- fields are changed by name
) -> Known:
    of = backend or making.backend()
    asked = making.incident(id=0, origin=Origin.PERSON, starts_at=T0, backend=of.name)
    case = making.case(
        incident=asked,
        backend=of,
        attempts=attempts,
        settings=making.limits(**limits or {}),
        fleet=frozenset({of.name}),
        **changed,
    )
    return Known(of, case, incidents, None)


def held(backend: str = "gpu-a", seconds: float = 100) -> HoldBack:
    return HoldBack(1, backend, at(-100), at(seconds), "alice", "a batch job")


ESCALATED = making.incident(id=2, action=Action.ESCALATE, reason=Reason.PROXY, why="a proxy")
WAITING = making.incident(id=1, action=Action.HOLD, reason=Reason.HELD, why="somebody holds it")
GIVEN_UP = Record(given_up_at=at(-5), given_up_why="3 did not help")
STARTING = making.attempt(AttemptState.STARTING, planned_at=at(-20), why="ended with status 0")
SHADOW = making.attempt(AttemptState.STARTING, planned_at=at(-20), mode=Mode.SHADOW)
JUST_NOW = making.attempt(AttemptState.RECOVERED, planned_at=at(-20), ended_at=at(-10))
SITUATIONS: dict[str, tuple[Known, Situation, str]] = {
    "nothing": (known(), Situation.READY, "no open incident"),
    "new": (
        known(making.incident()),
        Situation.WAITING,
        "an incident is not decided about yet",
    ),
    "held back": (known(WAITING), Situation.WAITING, "somebody holds it"),
    "a person's before one that waits": (known(WAITING, ESCALATED), Situation.ESCALATED, "a proxy"),
    "given up before all": (
        known(ESCALATED, attempts=(STARTING,), record=GIVEN_UP),
        Situation.GIVEN_UP,
        "3 did not help",
    ),
    "under way before its incident": (
        known(ESCALATED, attempts=(STARTING,)),
        Situation.RESTARTING,
        "attempt 7 is starting: ended with status 0",
    ),
    "another's attempt is not its own": (
        known(attempts=(making.attempt(AttemptState.STARTING, backend="gpu-b"),)),
        Situation.READY,
        "no open incident",
    ),
    "in shadow": (
        known(WAITING, attempts=(SHADOW,), limits={"mode": Mode.SHADOW}),
        Situation.WATCHED,
        "would have been restarted; watched for whether it comes back",
    ),
    "held": (
        known(holds=(held(), held(EVERY_BACKEND, 200))),
        Situation.HELD,
        "alice holds it until 2026-03-01T12:03:20Z: a batch job",
    ),
    "cooling down": (
        known(attempts=(JUST_NOW,)),
        Situation.COOLING_DOWN,
        "last restarted at 2026-03-01T11:59:50Z, its cool-down is 900 s",
    ),
    "a proxy": (
        known(backend=making.backend(kind=Kind.PROXY)),
        Situation.NOT_RESTARTED,
        "a proxy, which is never restarted",
    ),
    "nobody says how": (
        known(backend=making.backend(restart=None)),
        Situation.NOT_RESTARTED,
        "fleet.yml does not say how it is restarted",
    ),
}


@pytest.mark.parametrize(("of", "situation", "why"), SITUATIONS.values(), ids=list(SITUATIONS))
def test_a_situation_and_its_sentence(of: Known, situation: Situation, why: str) -> None:
    row = backend_row(of, T0)
    assert (row["situation"], row["why"]) == (situation, why)


def test_every_situation_is_shown_somewhere() -> None:
    assert {situation for _, situation, _ in SITUATIONS.values()} == set(Situation)


def test_restarts_are_counted_as_the_limits_count_them() -> None:
    old = making.attempt(id=1, planned_at=at(-43201))
    recent = making.attempt(id=2, planned_at=at(-43199))
    before_the_act = making.attempt(AttemptState.INTERRUPTED, id=3, acting_at=None)
    row = backend_row(known(attempts=(old, recent, before_the_act, JUST_NOW)), T0)
    assert (row["restarts"], row["restarts_left"]) == (2, 2)
    many = [making.attempt(id=i, planned_at=at(-100 * i)) for i in range(1, 8)]
    row = backend_row(known(attempts=tuple(many)), T0)
    assert (row["restarts"], row["restarts_left"]) == (7, 0)


def test_the_fleets_restarts_are_counted_once_each() -> None:
    fleet = fleet_row([known(attempts=(JUST_NOW,))] * 2, (), making.limits(), None, T0)
    assert (fleet["restarts"], fleet["restarts_left"]) == (1, 2)


def test_a_restart_that_has_lasted_so_far_is_none_that_did_not_help() -> None:
    assert backend_row(known(attempts=(JUST_NOW,)), T0)["unhelpful_restarts"] == 0
    failed = making.attempt(AttemptState.FAILED, planned_at=at(-20), ended_at=at(-10))
    assert backend_row(known(attempts=(failed,)), T0)["unhelpful_restarts"] == 1
    again = making.incident(starts_at=at(-5))
    assert backend_row(known(again, attempts=(JUST_NOW,)), T0)["unhelpful_restarts"] == 1


def test_what_stands_against_a_restart_asked_for_now_is_what_would_be_decided() -> None:
    against = backend_row(known(holds=(held(),)), T0)["against_restart"]
    assert against is not None
    assert (against["question"], against["stands_against"]) == ("held", True)
    assert backend_row(known(), T0)["against_restart"] is None


def test_those_that_most_want_a_person_come_first_then_by_number() -> None:
    names = ("gpu-10", "gpu-2", "gpu-b", "gpu-1")
    all_of_them = [known(backend=making.backend(name)) for name in names]
    urgent = known(ESCALATED, backend=making.backend("zeta"))
    rows = fleet_row([*all_of_them, urgent], (), making.limits(), None, T0)["backends"]
    assert [row["backend"] for row in rows] == ["zeta", "gpu-1", "gpu-2", "gpu-10", "gpu-b"]


WAYS: list[tuple[Way, str]] = [
    (Command(("/usr/bin/ssh", "gpu-a", "--password", "hunter2")), "the command /usr/bin/ssh"),
    (Systemd("vllm@a.service"), "the systemd unit vllm@a.service"),
    (Systemd("vllm@a.service", user=True), "the user unit vllm@a.service"),
    (Docker("vllm-a", "unix:///run/docker.sock", 30.0), "the container vllm-a"),
    (Kubernetes("models", pod="a-0"), "pod a-0 in models"),
    (Kubernetes("models", selector="app=a"), "the pod of app=a in models"),
    (Kubernetes("models", workload="deployment/a"), "deployment/a in models"),
]


@pytest.mark.parametrize(("way", "words"), WAYS, ids=[words for _, words in WAYS])
def test_a_way_in_words_has_no_secrets(way: Way, words: str) -> None:
    assert way_in_words(way) == words
    row = backend_row(known(backend=making.backend(restart=Restart(way, 10.0))), T0)
    assert row["restart"] == words
