"""Polls fall due, whatever others do; on real threads, with what is measured told by events."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from exporter import schedule
from exporter.schedule import MOST_FRESH, NAME, Schedule, Turn
from tests.fleet.listeners import eventually

QUICK = 0.05


@pytest.fixture
def polls() -> Iterator[Schedule]:
    polls = Schedule()
    polls.start()
    yield polls
    polls.close(10.0)


def turn(
    name: str, poll: Callable[[float], object], interval: float = QUICK, after: float = 0.0
) -> Turn:
    return Turn(name, poll, interval, time.monotonic() + after)


def workers() -> int:
    return sum(thread.name == f"{NAME}-worker" for thread in threading.enumerate())


def test_each_turn_polls_again_and_again(polls: Schedule) -> None:
    seen: Counter[str] = Counter()
    for name in "abc":
        polls.add(turn(name, lambda _, name=name: seen.update([name])))  # type: ignore[misc]
    assert eventually(lambda: len(seen) == 3 and min(seen.values()) >= 4)


def test_polls_keep_to_their_grid_and_missed_ones_are_left_out(polls: Schedule) -> None:
    began: list[float] = []
    late: list[float] = []

    def slow(seconds: float) -> None:
        began.append(time.monotonic())
        late.append(seconds)
        if len(began) == 2:
            time.sleep(3.5 * interval)

    interval = 4 * QUICK
    one = turn("a", slow, interval)
    first = one.due
    polls.add(one)
    assert eventually(lambda: len(began) >= 6)
    places = [(at - seconds - first) / interval for at, seconds in zip(began, late, strict=True)]
    rounded = [round(place) for place in places]
    assert all(abs(place - whole) < 0.4 for place, whole in zip(places, rounded, strict=True))
    assert rounded == sorted(set(rounded))
    assert rounded[2] - rounded[1] >= 4


def test_polls_of_one_turn_never_overlap_nor_do_those_that_share_its_lock(polls: Schedule) -> None:
    inside, most = [0], [0]

    def poll(_: float) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(1.5 * QUICK)
        inside[0] -= 1

    one, other = turn("a", poll), turn("b", poll)
    other.lock = one.lock
    polls.add(one)
    polls.add(other)
    time.sleep(10 * QUICK)
    assert most == [1]


def test_polls_that_hang_hold_up_no_other_however_many_they_are(polls: Schedule) -> None:
    over = threading.Event()
    good = threading.Event()
    for i in range(3 * MOST_FRESH):
        polls.add(turn(f"hangs-{i}", lambda _: over.wait(30.0)))
    polls.add(turn("good", lambda _: good.set(), after=QUICK))
    assert good.wait(60.0)
    good.clear()
    assert good.wait(60.0)
    over.set()


def test_of_many_that_are_due_at_once_only_some_run_at_once(
    polls: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "FRESH_SECONDS", 3600.0)
    inside, most, done = set(), [0], set()
    lock = threading.Lock()

    def poll(name: int) -> None:
        with lock:
            inside.add(name)
            most[0] = max(most[0], len(inside))
        time.sleep(0.005)
        with lock:
            inside.discard(name)
            done.add(name)

    for i in range(10 * MOST_FRESH):
        polls.add(turn(str(i), lambda _, i=i: poll(i), interval=3600.0))  # type: ignore[misc]
    assert eventually(lambda: len(done) == 10 * MOST_FRESH)
    assert most[0] <= MOST_FRESH
    assert workers() <= MOST_FRESH


def test_a_poll_that_breaks_is_told_and_comes_again(
    polls: Schedule, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    def broken(_: float) -> None:
        seen.append(1)
        raise RuntimeError("a bug in one look")

    polls.add(turn("gpu-a", broken))
    assert eventually(lambda: len(seen) >= 3)
    assert "event=poll_failed backend=gpu-a" in caplog.text


def test_a_turn_that_is_removed_polls_no_more(polls: Schedule) -> None:
    seen, others = [], []
    one = turn("a", lambda _: seen.append(1))
    polls.add(one)
    polls.add(turn("b", lambda _: others.append(1)))
    assert eventually(lambda: len(seen) >= 2)
    polls.remove(one)
    time.sleep(2 * QUICK)
    before, now = len(seen), len(others)
    assert eventually(lambda: len(others) >= now + 5)
    assert len(seen) == before


def test_threads_that_nobody_needs_end(polls: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "SPARE_SECONDS", 0.1)
    over = threading.Event()
    for i in range(5):
        polls.add(turn(str(i), lambda _: over.wait(30.0), interval=3600.0))
    assert eventually(lambda: workers() >= 5)
    over.set()
    assert eventually(lambda: workers() == 0)
    seen = threading.Event()
    polls.add(turn("later", lambda _: seen.set()))
    assert seen.wait(60.0)


def test_no_thread_to_be_had_is_tried_again(
    polls: Schedule, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(schedule, "NO_THREAD_SECONDS", 0.05)
    seen = threading.Event()
    starts: list[int] = []

    def start(thread: threading.Thread, real: Callable[..., None] = threading.Thread.start) -> None:
        starts.append(1)
        if len(starts) <= 2:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    polls.add(turn("a", lambda _: seen.set()))
    assert seen.wait(60.0)
    assert "event=no_thread why=can't start new thread" in caplog.text


def test_an_end_waits_for_polls_under_way_and_begins_no_other() -> None:
    polls = Schedule()
    polls.start()
    began, ended = threading.Event(), []

    def poll(_: float) -> None:
        began.set()
        time.sleep(0.2)
        ended.append(1)

    polls.add(turn("a", poll))
    assert began.wait(60.0)
    polls.close(10.0)
    assert not polls.is_running
    assert len(ended) == 1
    assert workers() == 0
