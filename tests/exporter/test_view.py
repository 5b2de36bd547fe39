"""What /api/backends and the page are made of."""

import pytest

from exporter.memory import Memory
from exporter.view import (
    RUNBOOK,
    URGENCIES,
    WORST_FIRST,
    BackendRow,
    Query,
    QueryError,
    Urgency,
    counts,
    query,
    rows,
)
from fleet import judgement
from fleet.state import State
from tests.exporter.fleets import backend_at, remember, snapshot
from tests.exporter.scenes import everything, working
from tests.fleet.watching import REFUSED, recorded

STEADY = working([30, 60, 90])


@pytest.fixture(scope="module")
def scene() -> dict[str, BackendRow]:
    memory = Memory()
    everything(memory)
    return {row["backend"]: row for row in rows(memory.watched(), 1004.0)}


def test_every_state_has_an_urgency_and_a_place() -> None:
    assert set(WORST_FIRST) == set(State)
    urgencies = [URGENCIES[state] for state in WORST_FIRST]
    assert urgencies == sorted(urgencies, key=list(Urgency).index)


def test_the_order_is_that_in_which_the_engines_of_one_backend_are_judged() -> None:
    engines = [state for state in WORST_FIRST if state in judgement.WORST_FIRST]
    assert engines == list(judgement.WORST_FIRST)


def test_the_worst_come_first_and_equals_by_name_as_people_count() -> None:
    memory = Memory()
    for name in ("gpu-10", "gpu-2", "idle-1"):
        remember(memory, *STEADY, backend=backend_at("http://127.0.0.1:1", name=name))
    remember(memory, REFUSED, backend=backend_at("http://127.0.0.1:1", name="z"))
    assert [row["backend"] for row in rows(memory.watched(), 1000.0)] == [
        *("z", "gpu-2", "gpu-10", "idle-1"),
    ]


def test_a_backend_nobody_looks_at_any_more_wants_a_person_before_all() -> None:
    memory = Memory()
    remember(memory, REFUSED, backend=backend_at("http://127.0.0.1:1", name="down"))
    fresh = backend_at("http://127.0.0.1:1", name="old", wait=60.0)
    remember(memory, *STEADY, backend=fresh, polled_at=940.0)
    assert [row["stale"] for row in rows(memory.watched(), 1000.0)] == [False, False]
    old, down = rows(memory.watched(), 1000.1)
    assert (old["backend"], old["stale"], old["urgency"]) == ("old", True, Urgency.PERSON)
    assert old["runbook_url"] == f"{RUNBOOK}#vllmexporterstale"
    assert down["runbook_url"] == f"{RUNBOOK}#vllmbackenddown"


def test_an_engine_has_its_rate_its_silence_and_its_looks() -> None:
    memory = Memory()
    remember(memory, *STEADY, backend=backend_at("http://127.0.0.1:1"), polled_at=998.0)
    ((engine,),) = [row["engines"] for row in rows(memory.watched(), 1000.0)]
    assert (engine["step_rate"], engine["requests_running"], engine["quiet_seconds"]) == (6.0, 2, 0)
    assert engine["looks"][-2:] == [
        {"age_seconds": 17.0, "step_rate": 4.0, "seen": "steps"},
        {"age_seconds": 2.0, "step_rate": 6.0, "seen": "steps"},
    ]


def test_a_backend_that_cannot_be_read_keeps_what_its_engines_last_gave() -> None:
    memory = Memory()
    remember(memory, *STEADY, REFUSED, backend=backend_at("http://127.0.0.1:1"))
    (row,) = rows(memory.watched(), 1000.0)
    (engine,) = row["engines"]
    assert (row["state"], engine["state"], engine["step_rate"]) == (State.DOWN, State.DOWN, None)
    assert (row["read_age_seconds"], row["good_read_age_seconds"]) == (0.0, 15.0)
    assert [look["seen"] for look in engine["looks"]] == ["first", *["steps"] * 3, "failed"]


def test_a_backend_that_was_never_read_has_no_engine(scene: dict[str, BackendRow]) -> None:
    assert scene["never-there"]["engines"] == []
    assert scene["never-there"]["good_read_age_seconds"] is None


def test_each_engine_has_a_state_of_its_own(scene: dict[str, BackendRow]) -> None:
    assert [engine["state"] for engine in scene["four-ranks"]["engines"]] == [
        *("busy", "busy", "stuck", "busy"),
    ]
    assert scene["four-ranks"]["state"] is State.STUCK


def test_two_waits_are_what_silence_is_measured_by(scene: dict[str, BackendRow]) -> None:
    row = scene["soon-quiet"]
    assert (row["engines"][0]["quiet_seconds"], row["stuck_after_seconds"]) == (45.0, 180.0)


QUERIES = {
    "everything": (query([], ""), {"a", "b", "c"}),
    "one state": (query(["down"], ""), {"a"}),
    "two states": (query(["down", "busy"], ""), {"a", "b"}),
    "an empty state is none": (query([""], ""), {"a", "b", "c"}),
    "a name, whatever the case": (query([], " B "), {"b"}),
    "an address": (query([], ":8003"), {"c"}),
    "both": (query(["busy"], "127"), {"b"}),
}


@pytest.mark.parametrize("case", QUERIES.values(), ids=QUERIES)
def test_what_is_asked_for(case: tuple[Query, set[str]]) -> None:
    wanted, names = case
    memory = Memory()
    memory.put(snapshot(REFUSED, backend=backend_at("http://127.0.0.1:8001", name="a")))
    memory.put(snapshot(*STEADY, backend=backend_at("http://127.0.0.1:8002", name="b")))
    idle = backend_at("http://127.0.0.1:8003", name="c")
    memory.put(snapshot(*recorded("idle"), backend=idle))
    found = rows(memory.watched(), 1000.0)
    assert {row["backend"] for row in found if wanted.wants(row)} == names
    assert list(counts(found).items()) == [(State.DOWN, 1), (State.BUSY, 1), (State.IDLE, 1)]


def test_a_state_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(QueryError, match=r"^state: 'stuk' is none of idle, busy, "):
        query(["stuk"], "")
