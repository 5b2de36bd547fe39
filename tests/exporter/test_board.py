"""What the page for people says beside the numbers."""

import pytest

from exporter.board import Board, caption, duration, iso, moment, reason, silence
from exporter.memory import Memory
from exporter.rates import Seen
from exporter.view import BackendRow, Urgency, query, rows
from fleet.state import State
from tests.exporter.fleets import backend_at, remember
from tests.exporter.scenes import everything, working
from tests.fleet.watching import REFUSED


@pytest.fixture(scope="module")
def found() -> list[BackendRow]:
    memory = Memory()
    everything(memory)
    return rows(memory.watched(), 1004.0)


def board(found: list[BackendRow], *states: str, text: str = "") -> Board:
    return Board(found, query(states, text), len(found))


def test_what_is_shown_stands_in_groups_and_no_group_is_empty(found: list[BackendRow]) -> None:
    assert [urgency for urgency, _, _ in board(found).groups] == list(Urgency)
    (group,) = board(found, "idle").groups
    assert (group[0], [row["backend"] for row in group[2]]) == (Urgency.NONE, ["idle"])


def test_a_choice_of_states_keeps_what_is_looked_for(found: list[BackendRow]) -> None:
    links = board(found, "down", text="a b").links
    assert [(link.name, link.many, link.href, link.chosen) for link in links[:3]] == [
        ("all", len(found), "?q=a+b", False),
        ("stuck", 3, "?state=stuck&q=a+b", False),
        ("down", 2, "?state=down&q=a+b", True),
    ]
    assert board(found).links[0].chosen


def test_the_summary_counts_who_wants_a_person(found: list[BackendRow]) -> None:
    assert board(found).summary == f"9 of {len(found)} want a person"
    memory = Memory()
    remember(memory, *working([1]), backend=backend_at("http://127.0.0.1:1"))
    fine = rows(memory.watched(), 1000.0)
    assert Board(fine, query([], ""), 2).summary == "1 of 2 backends read, none wants a person"
    remember(memory, REFUSED, backend=backend_at("http://127.0.0.1:1", name="b"))
    bad = rows(memory.watched(), 1000.0)
    assert Board(bad, query([], ""), 2).summary == "1 of 2 wants a person"


def test_all_graphs_show_the_time_of_the_longest_that_is_not_stale() -> None:
    memory = Memory()
    assert Board(rows(memory.watched(), 0.0), query([], ""), 1).span == 60.0
    remember(memory, *working([1, 1]), backend=backend_at("http://127.0.0.1:1"))
    old = backend_at("http://127.0.0.1:1", name="old")
    remember(memory, *working([1] * 9), backend=old, polled_at=500.0)
    assert Board(rows(memory.watched(), 1005.0), query([], ""), 2).span == 35.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.9, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min")),
        *((3600, "1 h 0 min"), (86399, "23 h 59 min"), (86400, "1 d 0 h"), (190000, "2 d 4 h")),
    ],
)
def test_a_duration_has_its_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_moment_has_its_day_where_it_would_not_be_clear() -> None:
    assert moment(1.7e9, 60.0) == "22:13:20 UTC"
    assert moment(1.7e9, 50000.0) == "14 Nov 2023, 22:13 UTC"
    assert iso(1.7e9) == "2023-11-14T22:13:20+00:00"


CAPTIONS: dict[str, tuple[list[tuple[Seen, float | None]], str]] = {
    "nothing": ([], "no look yet"),
    "steps": ([(Seen.STEPS, 60.0), (Seen.STEPS, 53.27)], "53.3 of at most 60 steps/s"),
    "moved": ([(Seen.STEPS, 60.0), (Seen.MOVED, 0.0)], "0 of at most 60 steps/s, moving"),
    "silent": ([(Seen.SILENT, 0.0)], "0 steps/s"),
    "still": ([(Seen.STILL, 0.0)], "0 steps/s"),
    "first": ([(Seen.FIRST, None)], "no rate yet"),
    "restarted": (
        [(Seen.STEPS, 60.0), (Seen.RESTARTED, None)],
        "new process, at most 60 steps/s",
    ),
    "failed": ([(Seen.FAILED, None)], "no reading"),
}


@pytest.mark.parametrize("case", CAPTIONS.values(), ids=CAPTIONS)
def test_a_caption_has_a_unit_to_each_number(
    case: tuple[list[tuple[Seen, float | None]], str],
) -> None:
    seen, text = case
    assert caption([{"age_seconds": 0.0, "step_rate": r, "seen": s} for s, r in seen]) == text


def test_silence_is_shown_against_two_waits(found: list[BackendRow]) -> None:
    said = {row["backend"]: silence(row["engines"][0], row) for row in found if row["engines"]}
    assert said["soon-quiet"] == "silent 45 s of 180 s"
    assert said["stuck"] == "silent 210 s, stuck at 180 s"


def test_a_sentence_does_not_repeat_the_state_beside_it() -> None:
    assert reason("stuck: 2 running", State.STUCK) == "2 running"
    assert reason("engine 2: stuck", State.STUCK) == "engine 2: stuck"
