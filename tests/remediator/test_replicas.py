"""Several remediators on one database: who acts, who takes over, and what a lost database does."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from remediator import episodes
from remediator.decision import Ignore, Reason
from remediator.incident import AttemptState, IncidentState
from remediator.locks import Locks
from remediator.patrol import LOCK
from remediator.record import Start, Whose
from remediator.store import Store
from remediator.worker import in_a_thread
from tests.remediator import making
from tests.remediator.fakes import Clock
from tests.remediator.making import alert, at, backend, settings
from tests.remediator.stage import BACK, Stage, planned

TAKEOVER_SECONDS = 15.0
ROUNDS = 4
SOON = 20.0  # seconds; only guards against hanging


def free() -> bool:
    """A lock that both get: here the database alone keeps them apart."""
    return True


@contextmanager
def replicas(
    folder: Path, url: str, *names: str, **limits: object
) -> Iterator[tuple[Stage, Stage]]:
    """Two remediators on one database and one clock, whose jobs have threads of their own."""
    fleet = settings(*(backend(name) for name in names or ("gpu-a",)), storm_least=99, **limits)
    shared = Clock(at(60))
    with ExitStack() as open_ones:
        first, second = (
            open_ones.enter_context(Stage(folder, fleet, in_a_thread, shared, url)) for _ in "12"
        )
        yield first, second


@contextmanager
def two_stores(url: str) -> Iterator[tuple[Store, Store]]:
    """One database, opened twice."""
    with ExitStack() as open_ones:
        first, second = Store(url), Store(url)
        open_ones.callback(first.close)
        open_ones.callback(second.close)
        yield first, second


def at_the_same_moment(*jobs: Callable[[], object]) -> list[object]:
    """Run jobs in threads of their own; what they return, or the exception that they raise."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = [pool.submit(job) for job in jobs]
    return [future.exception() or future.result() for future in futures]


def meet(*stages: Stage) -> None:
    """Let stages prove at once, so that they decide at the same moment."""
    barrier = threading.Barrier(len(stages))
    for stage in stages:
        stage.witness.while_proving = lambda: barrier.wait(SOON)


def idle(stage: Stage) -> None:
    assert stage.worker.wait_idle(SOON)


class Stuck:
    """Somewhere a job hangs until it is let go, as in a process that was stopped by SIGSTOP."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._go = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self._go.wait(SOON)

    def let_go(self, stage: Stage) -> None:
        self._go.set()
        idle(stage)


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_of_two_that_decide_at_once_about_a_backend_one_acts(
    tmp_path: Path, database_url: str, _round: int
) -> None:
    with replicas(tmp_path, database_url) as (one_, other):
        one_.tell()
        meet(one_, other)
        raised = at_the_same_moment(*(partial(s.remedy.consider, 1, free) for s in (one_, other)))
        assert raised == [None, None]
        assert len(one_.restarter.restarted) + len(other.restarter.restarted) == 1
        assert one_.told.count("restart stuck") == 1
        assert len(one_.all_attempts) == 1


@pytest.mark.parametrize("_round", range(ROUNDS))
@pytest.mark.parametrize(
    ("limit", "reason"),
    [({"fleet_restarts": 1, "max_parallel": 2}, "fleet_limit"), ({}, "max_parallel")],
    ids=["fleet_restarts", "max_parallel"],
)
def test_a_limit_of_the_fleet_holds_for_two_that_decide_at_once(
    tmp_path: Path, database_url: str, limit: dict[str, int], reason: str, _round: int
) -> None:
    with replicas(tmp_path, database_url, "gpu-a", "gpu-b", **limit) as (one_, other):
        one_.tell(alert(), alert(backend="gpu-b", fingerprint="b"))
        meet(one_, other)
        numbers = sorted(incident.id for incident in one_.store.incidents.open())
        raised = at_the_same_moment(
            partial(one_.remedy.consider, numbers[0], free),
            partial(other.remedy.consider, numbers[1], free),
        )
        assert raised == [None, None]
        assert len(one_.restarter.restarted) + len(other.restarter.restarted) == 1
        assert sorted(one_.told) == sorted(["restart stuck", f"hold {reason}"])


def test_what_two_are_told_at_once_is_one_incident_and_both_say_so(database_url: str) -> None:
    with two_stores(database_url) as stores:
        for number in range(ROUNDS):
            alerts = [alert(fingerprint=f"{number}{letter}") for letter in "abcdef"]
            raised = at_the_same_moment(
                partial(stores[0].incidents.note, alerts, at(number)),
                partial(stores[1].incidents.note, alerts[::-1], at(number)),
            )
            assert raised == [(), ()]
        assert len(stores[0].incidents.open()) == 6 * ROUNDS


def test_what_is_spoken_of_while_it_was_looked_at_is_not_closed(store: Store) -> None:
    store.incidents.note([alert()], at(0))
    (seen,) = store.incidents.open()
    store.incidents.note([alert()], at(1))
    store.incidents.decided(seen, Ignore(Reason.GONE, "it was restarted"), at(30), at(2))
    (still,) = store.incidents.due(at(30))
    assert (still.state, still.reason) == (IncidentState.OPEN, Reason.GONE)
    store.incidents.decided(still, Ignore(Reason.GONE, "it is gone"), at(60), at(31))
    assert store.incidents.open() == ()


def test_a_notification_waits_for_a_decision_and_opens_what_it_closed(database_url: str) -> None:
    store = Store(database_url)
    store.incidents.note([alert()], at(0))
    (seen,) = store.incidents.open()
    with ThreadPoolExecutor(1) as pool:
        with store.database.write() as connection:
            episodes.record(connection, seen, Ignore(Reason.GONE, "gone"), at(1))
            noted = pool.submit(store.incidents.note, [alert()], at(2))
            with pytest.raises(TimeoutError):
                noted.result(0.3)
        noted.result(SOON)
    assert len(store.incidents.open()) == 1
    store.close()


def test_nobody_is_taken_over_who_is_there(tmp_path: Path, database_url: str) -> None:
    with replicas(tmp_path, database_url) as (one_, other):
        one_.restarter.when_run = stuck = Stuck()
        one_.tell()
        one_.turn()
        assert stuck.reached.wait(SOON)
        for _ in range(20):
            one_.clock.advance(3)
            one_.turn()
            other.turn()
            idle(other)
        assert other.witness.looks == []
        assert one_.states == [AttemptState.ACTING]
        stuck.let_go(one_)
        assert one_.states == [AttemptState.STARTING]


def test_one_that_is_gone_is_taken_over_and_its_attempt_is_verified_not_repeated(
    tmp_path: Path, database_url: str
) -> None:
    with replicas(tmp_path, database_url) as (gone, other):
        gone.restarter.when_run = stuck = Stuck()
        gone.tell()
        gone.turn()
        assert stuck.reached.wait(SOON)
        other.witness.afterwards = BACK
        turns(other, TAKEOVER_SECONDS)
        assert other.witness.looks == []
        turns(other, 10)
        assert other.states == [AttemptState.RECOVERED]
        turns(other, 2000, tick=50)
        assert other.restarter.restarted == []
        assert other.incident.state is IncidentState.CLOSED
        stuck.let_go(gone)
        assert gone.restarter.restarted == ["gpu-a"]
        assert gone.states == [AttemptState.RECOVERED]


def test_one_that_only_stalled_before_it_acted_finds_that_and_does_not_act(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with replicas(tmp_path, database_url) as (stalled, other):
        stuck = Stuck()
        stalled.evidence.while_saving = stuck
        stalled.tell()
        stalled.turn()
        assert stuck.reached.wait(SOON)
        assert stalled.states == [AttemptState.PLANNED]
        turns(other, 60)
        assert other.states == [AttemptState.INTERRUPTED, AttemptState.STARTING]
        assert other.restarter.restarted == ["gpu-a"]
        stuck.let_go(stalled)
        assert stalled.restarter.restarted == []
        assert "event=taken_over backend=gpu-a" in caplog.text
        assert other.states == [AttemptState.INTERRUPTED, AttemptState.STARTING]


def test_one_that_stalled_while_it_looked_finds_the_attempt_of_the_other(
    tmp_path: Path, database_url: str
) -> None:
    with replicas(tmp_path, database_url) as (stalled, other):
        stalled.witness.while_proving = stuck = Stuck()
        stalled.tell()
        stalled.turn()
        assert stuck.reached.wait(SOON)
        turns(other, 30)
        assert other.restarter.restarted == ["gpu-a"]
        stuck.let_go(stalled)
        assert stalled.restarter.restarted == []


def turns(stage: Stage, seconds: float, tick: float = 5.0) -> None:
    """Let time pass for one remediator of two."""
    for _ in range(int(seconds / tick)):
        stage.turn()
        idle(stage)
        stage.clock.advance(tick)


@pytest.mark.parametrize("has_row", [True, False], ids=["with its last beat", "without a trace"])
def test_the_lock_of_a_process_that_was_killed_is_never_stuck(store: Store, has_row: bool) -> None:
    clock = Clock()
    killed = Locks(store.database, TAKEOVER_SECONDS, monotonic=clock.monotonic)
    if has_row:
        killed.beat(clock())
    assert killed.take("gpu-a")
    assert killed.take(LOCK)
    clock.advance(1e6)
    anew = Locks(store.database, TAKEOVER_SECONDS, monotonic=clock.monotonic)
    assert not anew.take("gpu-a")
    clock.advance(TAKEOVER_SECONDS - 1)
    assert not anew.take("gpu-a")
    clock.advance(1)
    assert anew.take("gpu-a")
    assert anew.take(LOCK)
    assert not killed.take("gpu-a")


def test_of_two_that_take_a_lock_at_once_one_has_it(database_url: str) -> None:
    with two_stores(database_url) as stores:
        locks = [Locks(store.database, TAKEOVER_SECONDS) for store in stores]
        for number in range(ROUNDS):
            taken = at_the_same_moment(*(partial(a.take, f"gpu-{number}") for a in locks))
            assert sorted(taken, key=str) == [False, True]


def test_of_two_that_see_a_process_at_once_one_tells_of_it(database_url: str) -> None:
    with two_stores(database_url) as stores:
        for number in range(ROUNDS):
            start = Start("gpu-a", at(number), at(number), Whose.FOREIGN)
            told = at_the_same_moment(*(partial(s.records.note, start) for s in stores))
            assert sorted(told, key=str) == [False, True]
            raised = at_the_same_moment(
                *(partial(s.records.reset, f"gpu-{number}", "me", at(0)) for s in stores)
            )
            assert not any(isinstance(one_, BaseException) for one_ in raised)


def test_two_attempts_at_once_are_refused_by_the_database_itself(database_url: str) -> None:
    with two_stores(database_url) as stores:
        stores[0].incidents.note([alert()], at(0))
        (incident,) = stores[0].incidents.open()
        mode = making.limits().mode
        for _ in range(ROUNDS):
            came_to = at_the_same_moment(
                *(partial(planned, s, incident, mode, None, at(1)) for s in stores)
            )
            assert sum(isinstance(one_, Exception) for one_ in came_to) == 1
            (begun,) = stores[0].attempts.under_way()
            ends = at_the_same_moment(
                *(partial(s.attempts.advance, begun, AttemptState.FAILED, at(2)) for s in stores)
            )
            assert sorted(type(one_).__name__ for one_ in ends) == ["Attempt", "TakenOverError"]
