"""What is remembered of the looks at an engine."""

import sys
from dataclasses import replace

import pytest

from exporter.memory import Memory
from exporter.rates import MOST_LOOKS, Glance, Seen
from fleet.fetch import Failure
from fleet.reading import Reading
from tests.exporter.fleets import backend_at, remember
from tests.exporter.scenes import prefilling, working
from tests.fleet.pages import BUSY, IDLE, page
from tests.fleet.watching import REFUSED, TIMEOUT, recorded

BACKEND = backend_at("http://127.0.0.1:8000")
STEADY = working([30, 60, 90])


def looks(*results: Reading | Failure, engine: str = "0") -> tuple[Glance, ...]:
    memory = Memory()
    remember(memory, *results, backend=BACKEND)
    (one,) = memory.watched()
    return one.rates[engine]


def seen(*results: Reading | Failure, engine: str = "0") -> list[str]:
    return [look.seen for look in looks(*results, engine=engine)]


def idle(steps: float = 100) -> Reading:
    return Reading.from_page(page({"0": {**IDLE, "steps": steps}}, 1.0))


def test_a_rate_is_the_steps_since_the_reading_before_by_the_seconds_between() -> None:
    assert [(look.at, look.step_rate) for look in looks(*STEADY)] == [
        (955.0, None),
        (970.0, 2.0),
        (985.0, 4.0),
        (1000.0, 6.0),
    ]


def test_a_failed_read_has_no_rate_and_the_next_is_over_the_whole_gap() -> None:
    before, after = STEADY[1:3]
    found = looks(STEADY[0], before, REFUSED, after)
    assert [look.seen for look in found][1:] == [Seen.STEPS, Seen.FAILED, Seen.STEPS]
    assert [look.step_rate for look in found][2:] == [None, 2.0]


def test_nothing_is_compared_across_a_restart() -> None:
    new = working([15], start=2.0, first=5)
    found = looks(*STEADY, *new)
    assert [look.seen for look in found][-2:] == [Seen.RESTARTED, Seen.STEPS]
    assert [look.step_rate for look in found][-2:] == [None, 1.0]


def test_a_long_prefill_counts_no_step_and_moves() -> None:
    found = looks(*prefilling(4, steps=100))
    assert {(look.step_rate, look.seen) for look in found[1:]} == {(0.0, Seen.MOVED)}


def test_the_recorded_prefill_of_a_real_server_moves_in_every_look() -> None:
    assert Seen.SILENT not in seen(*recorded("long-prefill"))
    assert Seen.MOVED in seen(*recorded("long-prefill"))


def test_silence_is_told_from_having_nothing_to_do() -> None:
    assert seen(STEADY[0], STEADY[0], STEADY[0])[1:] == [Seen.SILENT] * 2
    assert seen(idle(), idle(), idle())[1:] == [Seen.STILL] * 2


def test_engines_are_looked_at_one_by_one() -> None:
    frozen, working_on = (
        seen(*recorded("dp2-one-engine-frozen"), engine=engine) for engine in ("0", "1")
    )
    assert (frozen[-1], working_on[-1]) == (Seen.SILENT, Seen.STEPS)


def test_only_so_many_looks_are_remembered_and_they_are_small() -> None:
    found = looks(*working([30] * 70))
    assert len(found) == MOST_LOOKS
    assert found[-1].at == 1000.0
    # 2,000 backends: 60 of these each are 19 MB with their numbers.
    assert sum(map(sys.getsizeof, (found[0], found[0].at, found[0].step_rate))) <= 160


def test_an_engine_that_is_gone_is_forgotten() -> None:
    both = [Reading.from_page(page({"0": BUSY, "1": BUSY}, 1.0))] * 2
    memory = Memory()
    remember(memory, *both, STEADY[0], backend=BACKEND)
    assert set(memory.watched()[0].rates) == {"0"}


def test_backends_are_remembered_apart() -> None:
    memory = Memory()
    remember(memory, *STEADY, backend=BACKEND)
    remember(memory, STEADY[0], TIMEOUT, backend=backend_at("http://127.0.0.1:1", name="gpu-b"))
    assert {one.snapshot.backend.name: len(one.rates["0"]) for one in memory.watched()} == {
        "gpu-a": 4,
        "gpu-b": 2,
    }


def test_another_server_by_the_same_name_begins_anew() -> None:
    memory = Memory()
    remember(memory, *STEADY, backend=BACKEND)
    remember(memory, STEADY[0], backend=replace(BACKEND, url="http://127.0.0.1:9000"))
    assert [look.seen for look in memory.watched()[0].rates["0"]] == [Seen.FIRST]


@pytest.mark.parametrize("failures", [1, 80], ids=["once", "for longer than is remembered"])
def test_an_outage_leaves_looks_without_a_rate(failures: int) -> None:
    found = looks(*STEADY, *[REFUSED] * failures)
    assert [look.seen for look in found][-failures:] == [Seen.FAILED] * min(failures, MOST_LOOKS)
