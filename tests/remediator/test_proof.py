from types import MappingProxyType

import pytest

from fleet.reading import EngineReading, Reading
from remediator.proof import Health, Look, Sight, saw
from tests.remediator.making import START, engine, reading


def look(page: Reading | None, *, refused: bool = False, asked: bool = False) -> Look:
    return Look(page, Health.OK, "" if page else "it timed out", refused=refused, asked=asked)


def queue(waiting: float, **more: float) -> Reading:
    """A page on which so many requests wait for capacity."""
    return reading(e0=engine(waiting=waiting, waiting_capacity=waiting, **more))


REFUSED = look(None, refused=True)
TIMEOUT = look(None)
PAGE = look(reading())
MOVED = look(reading(e0=engine(kv_usage=0.26)))
TWO = reading(e0=engine(), e1=engine())
ONE_MOVED = reading(e0=engine(), e1=engine(steps=4300.0))

SERIES = {
    "nothing moved": ([PAGE, PAGE, PAGE], "0", Sight.STILL),
    "KV usage moved": ([PAGE, MOVED], "0", Sight.MOVED),
    "it moved and came back to where it was": ([PAGE, MOVED, PAGE], "0", Sight.MOVED),
    "a timeout between two pages": ([PAGE, TIMEOUT, PAGE], "0", Sight.STILL),
    "a timeout at first": ([TIMEOUT, PAGE, PAGE], "0", Sight.UNREADABLE),
    "a timeout at last": ([PAGE, PAGE, TIMEOUT], "0", Sight.UNREADABLE),
    "refused all the time": ([REFUSED, REFUSED], "0", Sight.REFUSED),
    "refused, then a page": ([REFUSED, PAGE], "0", Sight.UNREADABLE),
    "a page, then refused": ([PAGE, REFUSED], "0", Sight.UNREADABLE),
    "another start time": ([PAGE, look(reading(START + 9))], "0", Sight.RESTARTED),
    "a counter fell": ([PAGE, look(reading(e0=engine(steps=3.0)))], "0", Sight.RESTARTED),
    "asleep": (
        [look(reading(e0=engine(awake=False)))] * 2,
        "0",
        Sight.ASLEEP,
    ),
    "woken": (
        [look(reading(e0=engine(awake=False))), PAGE],
        "0",
        Sight.ASLEEP,
    ),
    "put to sleep": (
        [PAGE, look(reading(e0=engine(awake=False)))],
        "0",
        Sight.ASLEEP,
    ),
    "an engine that is not there": ([PAGE, PAGE], "1", Sight.UNREADABLE),
    "an engine that went": ([look(TWO), PAGE], "1", Sight.UNREADABLE),
    "no engine at all": ([look(Reading(START, MappingProxyType({})))] * 2, None, Sight.UNREADABLE),
    "another engine moved": ([look(TWO), look(ONE_MOVED)], "0", Sight.STILL),
    "this engine moved": ([look(TWO), look(ONE_MOVED)], "1", Sight.MOVED),
    "no engine was named, and one moved": ([look(TWO), look(ONE_MOVED)], None, Sight.MOVED),
    "no engine was named, and none moved": ([look(TWO), look(TWO)], None, Sight.STILL),
    "a value that is NaN": (
        [look(reading(e0=engine(running=None, unreadable=frozenset({"running"}))))] * 2,
        "0",
        Sight.UNREADABLE,
    ),
    "our request joined the queue": (
        [look(queue(6)), look(queue(7), asked=True), look(queue(7), asked=True)],
        "0",
        Sight.STILL,
    ),
    "somebody's request joined the queue": ([look(queue(6)), look(queue(7))], "0", Sight.MOVED),
    "two joined the queue, one of them ours": (
        [look(queue(6)), look(queue(8), asked=True)],
        "0",
        Sight.MOVED,
    ),
    "one left the queue": ([look(queue(6)), look(queue(5), asked=True)], "0", Sight.MOVED),
    "our request joined, and a step was made": (
        [look(queue(6)), look(queue(7, steps=4300.0), asked=True)],
        "0",
        Sight.MOVED,
    ),
    "no KV usage": ([look(reading(e0=EngineReading(running=1.0)))] * 2, "0", Sight.UNREADABLE),
}


@pytest.mark.parametrize(("looks", "name", "sight"), SERIES.values(), ids=list(SERIES))
def test_what_a_series_of_looks_shows(looks: list[Look], name: str | None, sight: Sight) -> None:
    seen = saw(looks, name)
    assert seen.sight is sight
    assert seen.why
