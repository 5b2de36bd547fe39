"""Stories of more than one restart: storms, relapses, holds, what people and others do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fleet.backend import Backend
from fleet.settings import Mode
from remediator.case import Standing
from remediator.drain import Drained
from remediator.incident import AttemptState, IncidentState
from remediator.notification import Status
from remediator.patrol import Patrol
from remediator.record import EVERY_BACKEND, Whose
from remediator.recovery import Aftermath
from remediator.restart import Outcome
from tests.remediator import making
from tests.remediator.making import T0, alert, at, backend, reading, settings
from tests.remediator.stage import BACK, Stage

SIX = tuple(f"gpu-{letter}" for letter in "abcdef")


def staged(tmp_path: Path, *names: str, **limits: object) -> Stage:
    return Stage(tmp_path, settings(*(backend(name) for name in names or ("gpu-a",)), **limits))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as staged_one:
        yield staged_one


def new_process(stage: Stage) -> Aftermath:
    """A server that was started just now, and answers."""
    started = stage.clock.now.timestamp()
    return Aftermath(reading(started), request=BACK.request, request_why=BACK.request_why)


def test_four_of_six_at_once_are_a_storm_and_nothing_is_restarted(tmp_path: Path) -> None:
    with staged(tmp_path, *SIX) as stage:
        for i, name in enumerate(SIX[:4]):
            stage.tell(alert(backend=name, fingerprint=name, starts_at=at(15 * i)))
        stage.pass_(600)
        assert stage.restarter.restarted == []
        assert stage.told.count("hold too_many_unhealthy") == 4
        assert "4 of 6 backends are in trouble" in stage.incident.why


def test_a_storm_is_seen_before_its_alerts_ask_for_a_restart(tmp_path: Path) -> None:
    with staged(tmp_path, *SIX) as stage:
        quiet = frozenset(SIX[1:4])  # for one wait: no restart is asked for yet
        stage.alertmanager.answer = Standing(
            making.ACTIVE.state, making.ACTIVE.why, T0, in_trouble=quiet
        )
        stage.tell()
        stage.pass_(60)
        assert stage.told == ["hold too_many_unhealthy"]


def test_what_is_left_of_a_storm_is_restarted_one_by_one(tmp_path: Path) -> None:
    with staged(tmp_path, *SIX) as stage:
        stage.tell(*(alert(backend=name, fingerprint=name) for name in SIX[:4]))
        stage.pass_(60)
        over = [Status.RESOLVED] * 2
        stage.tell(
            *(
                alert(backend=name, fingerprint=name, status=status, ends_at=stage.clock.now)
                for name, status in zip(SIX[:2], over, strict=True)
            )
        )
        stage.pass_(60)
        assert stage.restarter.restarted == ["gpu-c"]
        assert "hold max_parallel" in stage.told


def relapse(stage: Stage, minutes: float) -> None:
    """It is restarted sooner or later, comes back, and is stuck again after some minutes."""
    before = len(stage.restarter.restarted)
    for _ in range(500):
        if len(stage.restarter.restarted) > before:
            break
        stage.pass_(60, tick=60)
    stage.witness.afterwards = new_process(stage)
    stage.pass_(20)
    assert stage.states[-1] is AttemptState.RECOVERED
    stage.pass_(60 * minutes, tick=30)
    began = stage.clock.now
    stage.witness.seen = making.proof(reading=reading(began.timestamp() - 60 * minutes))
    stage.alertmanager.answer = Standing(making.ACTIVE.state, making.ACTIVE.why, began)
    stage.tell(alert(starts_at=began))


def test_what_comes_back_stuck_is_left_alone_longer_each_time_and_then_to_a_person(
    tmp_path: Path,
) -> None:
    restarted_at: list[float] = []
    with staged(tmp_path) as stage:
        stage.restarter.when_run = lambda: restarted_at.append(
            (stage.clock.now - T0).total_seconds()
        )
        stage.tell()
        for _ in range(3):
            relapse(stage, 3.5)
        stage.pass_(50_000, tick=600)
        assert len(restarted_at) == 3
        first, second, third = restarted_at
        assert third - second > 1.9 * (second - first)
        assert stage.told[-1] == "escalate gave_up"
        assert "vllm-remediator reset gpu-a" in stage.incident.why


def test_given_up_is_for_good_until_a_person_says_reset(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        stage.tell()
        for _ in range(3):
            relapse(stage, 3.5)
        stage.pass_(100)
        assert stage.store.records.given_up() == {"gpu-a"}
        stage.kill_and_start()
        stage.pass_(200_000, tick=5000)
        later = stage.clock.now
        stage.alertmanager.answer = Standing(making.ACTIVE.state, making.ACTIVE.why, later)
        stage.tell(alert(starts_at=later))
        stage.pass_(100)
        assert len(stage.restarter.restarted) == 3
        stage.store.records.reset("gpu-a", "ann", stage.clock())
        stage.pass_(100)
        assert len(stage.restarter.restarted) == 4


def test_a_hold_holds_as_long_as_it_says_and_no_longer(stage: Stage) -> None:
    stage.store.holds.add("gpu-a", stage.clock.now + timedelta(minutes=10), "ann", "batch", at(60))
    stage.tell()
    stage.pass_(590)
    assert stage.told == ["hold held"]
    assert "ann holds gpu-a until 2026-03-01T12:11:00Z: batch" in stage.incident.why
    stage.pass_(60)
    assert stage.restarter.restarted == ["gpu-a"]


def test_a_hold_of_the_whole_fleet_ends_when_it_is_released(stage: Stage) -> None:
    stage.store.holds.add(EVERY_BACKEND, stage.clock.now + timedelta(days=1), "ann", "so", at(60))
    stage.tell()
    stage.pass_(100)
    assert stage.restarter.restarted == []
    (released,) = stage.store.holds.release(EVERY_BACKEND, "bob", stage.clock())
    assert released.held_by == "ann"
    stage.pass_(60)
    assert stage.restarter.restarted == ["gpu-a"]
    assert stage.store.holds.in_force(stage.clock()) == ()


def test_streams_are_moved_away_first_and_the_backend_is_used_again_after(tmp_path: Path) -> None:
    behind = backend(gateways=("http://127.0.0.1:2",))
    with Stage(tmp_path, settings(behind)) as stage:
        stage.restarter.when_run = lambda: asked.extend(stage.gateways.drained)
        asked: list[str] = []
        stage.gateways.answer = Drained(ok=False, why="2 streams were left after 60 s", left=2)
        stage.tell()
        stage.turn()
        assert asked == ["gpu-a"]
        assert stage.gateways.undrained == []
        assert stage.all_attempts[0].drained == "2 streams were left after 60 s"
        stage.witness.afterwards = BACK
        stage.pass_(10)
        assert stage.states == [AttemptState.RECOVERED]
        assert stage.gateways.undrained == ["gpu-a"]


def test_killed_while_streams_are_moved_away_the_backend_is_used_again(tmp_path: Path) -> None:
    with Stage(tmp_path, settings(backend(gateways=("http://127.0.0.1:2",)))) as stage:
        stage.gateways.killed = True
        stage.tell()
        stage.turn()
        stage.kill_and_start()
        stage.turn()
        assert stage.states[0] is AttemptState.INTERRUPTED
        assert stage.gateways.undrained == ["gpu-a"]


def test_a_backend_without_gateways_asks_none(stage: Stage) -> None:
    stage.tell()
    stage.turn()
    stage.witness.afterwards = BACK
    stage.pass_(20)
    assert stage.states == [AttemptState.RECOVERED]
    assert (stage.gateways.drained, stage.gateways.undrained) == ([], [])


def test_a_planned_restart_needs_no_proof_and_is_closed_when_it_is_done(stage: Stage) -> None:
    asked = stage.store.incidents.ask("gpu-a", "ann", "new driver", stage.clock())
    stage.turn()
    assert stage.restarter.restarted == ["gpu-a"]
    assert stage.witness.proofs == []
    assert stage.alertmanager.asked == 0
    stage.turn()
    assert stage.store.incidents.incident(asked.id).state is IncidentState.OPEN
    stage.witness.afterwards = BACK
    stage.pass_(20)
    done = stage.store.incidents.incident(asked.id)
    assert done.state is IncidentState.CLOSED
    assert stage.told == ["restart planned", "ignore already_handled"]
    stage.pass_(5000, tick=100)
    assert stage.restarter.restarted == ["gpu-a"]


def test_a_planned_restart_that_a_guard_stands_against_is_refused_at_once(stage: Stage) -> None:
    stage.store.holds.add("gpu-a", stage.clock.now + timedelta(minutes=1), "bob", "batch", at(60))
    asked = stage.store.incidents.ask("gpu-a", "ann", "new driver", stage.clock())
    stage.turn()
    refused = stage.store.incidents.incident(asked.id)
    assert (refused.state, refused.reason) == (IncidentState.CLOSED, "held")
    assert [(a.question, a.stands_against) for a in refused.answers][-1] == ("held", True)
    stage.pass_(600)
    assert stage.restarter.restarted == []


def test_a_planned_restart_that_fails_is_tried_no_second_time(stage: Stage) -> None:
    stage.restarter.outcome = Outcome(ok=False, why="the command ended with status 1")
    asked = stage.store.incidents.ask("gpu-a", "ann", "new driver", stage.clock())
    stage.pass_(5000, tick=100)
    assert stage.restarter.restarted == ["gpu-a"]
    assert stage.store.incidents.incident(asked.id).state is IncidentState.CLOSED


def test_every_question_and_its_answer_are_kept(stage: Stage) -> None:
    stage.tell()
    stage.turn()
    (line,) = stage.store.incidents.newest_decisions(1)
    questions = [answer.question for answer in line.answers]
    assert questions[:3] == ["asked_for", "known_backend", "firing"]
    assert questions[-1] == "as_alerted"
    assert not any(answer.stands_against for answer in line.answers)
    assert all(answer.said for answer in line.answers)


def test_what_was_learned_of_loading_times_shortens_the_wait_for_the_next(stage: Stage) -> None:
    stage.tell()
    stage.pass_(100)
    stage.witness.afterwards = new_process(stage)
    stage.pass_(10)
    (load,) = stage.store.records.record("gpu-a").loads
    assert load == (stage.clock.now - stage.all_attempts[0].planned_at).total_seconds()
    stage.pass_(5000, tick=100)
    stage.store.incidents.ask("gpu-a", "ann", "again", stage.clock())
    stage.witness.afterwards = Aftermath(None, "the connection was refused")
    stage.pass_(2 * load + 30)
    assert stage.states == [AttemptState.RECOVERED, AttemptState.NOT_BACK]


@dataclass
class FakeBeholder:
    """Says what it is told about each backend's process."""

    starts: dict[str, datetime | None] = field(default_factory=dict)

    def started_at(self, backend: Backend) -> datetime | None:
        return self.starts.get(backend.name)


@dataclass
class Walk:
    """A patrol over one backend."""

    stage: Stage
    beholder: FakeBeholder = field(default_factory=FakeBeholder)

    def sees(self, started_at: datetime | None) -> Whose | None:
        self.beholder.starts["gpu-a"] = started_at
        patrol = Patrol(
            self.stage.settings, self.stage.store, self.stage.locks, self.beholder, self.stage.clock
        )
        found = patrol.look(self.stage.settings.backends[0])
        return None if found is None else found.whose


def test_a_process_that_nobody_of_ours_started_is_foreign(stage: Stage) -> None:
    walk = Walk(stage)
    assert walk.sees(None) is None
    assert walk.sees(at(-5000)) is Whose.FIRST
    assert walk.sees(at(-5000)) is None
    assert walk.sees(at(55)) is Whose.FOREIGN
    assert walk.sees(None) is None
    assert walk.sees(at(55)) is None
    assert stage.store.records.foreign_restarts() == {"gpu-a": 1}
    assert stage.store.records.record("gpu-a").last_foreign == at(55)


def test_a_foreign_restart_begins_our_cool_down_even_where_nobody_reads_the_page(
    stage: Stage,
) -> None:
    walk = Walk(stage)
    walk.sees(at(-5000))
    walk.sees(at(-60))
    stage.tell()
    stage.pass_(60)
    assert stage.told == ["hold cooling_down"]
    stage.pass_(900)
    assert stage.restarter.restarted == ["gpu-a"]


def test_the_process_that_our_attempt_started_is_ours_and_the_next_is_not(stage: Stage) -> None:
    walk = Walk(stage)
    walk.sees(at(-86400))
    stage.tell()
    stage.turn()
    started = stage.clock.now
    assert walk.sees(started) is Whose.OURS
    stage.clock.advance(10)
    assert walk.sees(stage.clock.now) is Whose.FOREIGN


def test_a_process_that_began_long_after_our_attempt_ended_is_foreign(stage: Stage) -> None:
    walk = Walk(stage)
    walk.sees(at(-86400))
    stage.tell()
    stage.witness.afterwards = BACK
    stage.pass_(30)
    stage.pass_(600)
    assert walk.sees(stage.clock.now) is Whose.FOREIGN


def test_in_shadow_no_process_is_ours(tmp_path: Path) -> None:
    with staged(tmp_path, mode=Mode.SHADOW) as stage:
        walk = Walk(stage)
        walk.sees(at(-86400))
        stage.tell()
        stage.turn()
        assert walk.sees(stage.clock.now) is Whose.FOREIGN
