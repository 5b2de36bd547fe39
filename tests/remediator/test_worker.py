"""What happens over time: sequences of events on a fake clock, cut anywhere by a kill."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.backend import Restart
from fleet.settings import Mode
from fleet.way import Command
from remediator.case import AlertState, Standing
from remediator.database import StorageError
from remediator.decision import Action, Reason
from remediator.incident import AttemptState, IncidentState, ShadowOutcome
from remediator.notification import Status, Symptom
from remediator.proof import Request, Saw, Sight
from remediator.recovery import Aftermath
from remediator.restart import Outcome
from remediator.worker import MOST_PER_TURN, STALLED_SECONDS
from tests.remediator import making
from tests.remediator.fakes import Later, in_background
from tests.remediator.making import alert, at, backend, reading, settings
from tests.remediator.stage import BACK, GONE, Stage, planned

pytestmark = pytest.mark.long

RECOVERED, INTERRUPTED = AttemptState.RECOVERED, AttemptState.INTERRUPTED
STARTING, ACTING, PLANNED = AttemptState.STARTING, AttemptState.ACTING, AttemptState.PLANNED


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as one:
        yield one


def staged(tmp_path: Path, *backends: str, **limits: object) -> Stage:
    return Stage(tmp_path, settings(*(backend(name) for name in backends), **limits))


def test_a_stuck_backend_is_restarted_and_comes_back(stage: Stage) -> None:
    stage.tell()
    stage.turn()
    assert stage.restarter.restarted == ["gpu-a"]
    assert stage.states == [STARTING]
    assert stage.evidence.saved == [("gpu-a", 1)]
    stage.witness.afterwards = GONE
    stage.pass_(120)
    assert stage.states == [STARTING]
    stage.witness.afterwards = BACK
    stage.pass_(10)
    assert stage.states == [RECOVERED]
    stage.pass_(10)
    assert stage.told == ["restart stuck", "hold under_way", "ignore already_handled"]
    assert stage.incident.state is IncidentState.CLOSED
    (attempt,) = stage.all_attempts
    assert attempt.start_time_after == making.T0.timestamp() + 60
    assert attempt.exit_status == 0


def test_the_attempt_is_written_before_the_act(stage: Stage) -> None:
    seen: list[list[AttemptState]] = []
    stage.restarter.when_run = lambda: seen.append(stage.states)
    stage.tell()
    stage.turn()
    assert seen == [[ACTING]]


def test_nothing_is_restarted_that_moves_while_we_look(stage: Stage) -> None:
    stage.witness.seen = making.proof(
        saw=Saw(Sight.MOVED, "engine 0 wrote steps"), request=Request.NOT_SENT, seconds=5.0
    )
    stage.tell()
    stage.pass_(300)
    assert stage.restarter.restarted == []
    assert stage.told == ["hold progressing"]
    assert len(stage.witness.proofs) > 3  # it is looked at again and again


def test_what_cannot_be_read_is_held_and_a_person_is_told(stage: Stage) -> None:
    stage.witness.seen = making.proof(
        saw=Saw(Sight.UNREADABLE, "/metrics did not answer in full within 5 s"),
        request=Request.NOT_SENT,
        reading=None,
    )
    stage.tell()
    stage.pass_(300)
    assert stage.restarter.restarted == []
    assert stage.told == ["hold cannot_verify"]
    assert stage.incident.action is Action.HOLD  # which remediator_held shows


def test_a_restart_by_somebody_else_starts_our_cool_down(stage: Stage) -> None:
    """They restarted it, it hung again within the cool-down, and the alert fires anew."""
    theirs = stage.clock.now.timestamp()
    stage.witness.seen = making.proof(reading=reading(theirs))
    stage.clock.advance(300)
    stage.tell(alert(starts_at=stage.clock.now))
    stage.pass_(500)
    assert stage.told == ["hold cooling_down"]
    stage.pass_(200)
    assert stage.restarter.restarted == ["gpu-a"]
    assert stage.all_attempts[0].planned_at.timestamp() >= theirs + 900


def test_what_answers_is_left_alone_until_it_is_notified_about_again(stage: Stage) -> None:
    stage.witness.seen = making.proof(request=Request.ANSWERED)
    stage.tell()
    stage.pass_(300)
    assert stage.incident.state is IncidentState.CLOSED
    assert stage.told == ["ignore progressing"]
    stage.witness.seen = making.proof()
    stage.tell()
    stage.turn()
    assert stage.restarter.restarted == ["gpu-a"]


def test_silenced_while_we_looked(stage: Stage) -> None:
    stage.witness.while_proving = lambda: stage.say(AlertState.SILENCED)
    stage.tell()
    stage.turn()
    assert stage.told == ["hold silenced"]
    stage.witness.while_proving = lambda: None
    stage.say(AlertState.ACTIVE)
    stage.pass_(40)
    assert stage.restarter.restarted == ["gpu-a"]


def test_resolved_while_we_looked(stage: Stage) -> None:
    resolved = alert(status=Status.RESOLVED, ends_at=at(70))
    stage.witness.while_proving = lambda: stage.tell(resolved)
    stage.tell()
    stage.turn()
    assert stage.restarter.restarted == []
    assert stage.told == ["ignore resolved"]


def test_a_hold_ends_when_alertmanager_does_not_have_the_alert_any_more(stage: Stage) -> None:
    stage.say(AlertState.SILENCED)
    stage.tell()
    stage.pass_(60)
    assert stage.incident.action is Action.HOLD
    stage.say(AlertState.GONE)
    stage.pass_(40)
    assert stage.incident.state is IncidentState.CLOSED
    assert stage.told == ["hold silenced", "ignore gone"]


def test_a_resolved_notification_closes_what_is_held(stage: Stage) -> None:
    stage.say(AlertState.SILENCED)
    stage.tell()
    stage.turn()
    stage.tell(alert(status=Status.RESOLVED, ends_at=at(70)))
    assert stage.incident.state is IncidentState.CLOSED
    assert stage.told[-1] == "ignore resolved"
    asked = stage.alertmanager.asked
    stage.pass_(300)
    assert stage.alertmanager.asked == asked


def test_an_alert_that_fired_anew_between_two_notifications_is_taken_up(stage: Stage) -> None:
    stage.alertmanager.answer = Standing(AlertState.ACTIVE, "active", at(50))
    stage.tell()
    stage.pass_(20)
    assert stage.restarter.restarted == ["gpu-a"]
    assert stage.told[:2] == ["ignore superseded", "restart stuck"]
    assert stage.incident.starts_at == at(50)


def test_a_hold_is_looked_at_again_at_its_end_if_that_comes_first(tmp_path: Path) -> None:
    with staged(tmp_path, "gpu-a", recheck_every=600.0, cool_down=150.0) as stage:
        began = stage.clock.now
        stage.witness.seen = making.proof(reading=reading(making.T0.timestamp() - 10))
        stage.tell()
        stage.turn()
        assert stage.incident.reason is Reason.COOLING_DOWN
        stage.pass_(100, tick=1.0)
        assert stage.restarter.restarted == ["gpu-a"]
        assert (stage.clock.now - began).total_seconds() < 200


def test_the_same_notification_from_two_peers_and_fourteen_retries(stage: Stage) -> None:
    stage.witness.afterwards = GONE
    for _ in range(2):
        stage.tell()
    stage.turn()
    for _ in range(14):
        stage.tell()
        stage.pass_(1, tick=1.0)
    stage.witness.afterwards = BACK
    stage.pass_(60)
    stage.tell()
    stage.pass_(2000)
    assert stage.restarter.restarted == ["gpu-a"]


def test_two_engines_of_one_backend_are_one_restart(stage: Stage) -> None:
    stage.tell(alert(engine="0"), alert(engine="1", fingerprint="b"))
    stage.pass_(20)
    stage.witness.afterwards = BACK
    stage.pass_(200)
    assert stage.restarter.restarted == ["gpu-a"]
    assert {line.split()[1] for line in stage.told} >= {"restarted_since", "already_handled"}


@pytest.mark.parametrize(
    ("outcome", "afterwards", "ends"),
    [
        (Outcome(ok=False, why="status 3", exit_status=3), BACK, AttemptState.FAILED),
        (None, GONE, AttemptState.NOT_BACK),
        (None, Aftermath(reading(), request=Request.UNANSWERED), AttemptState.STILL_STUCK),
    ],
    ids=["the command fails", "it does not come back", "it stays stuck"],
)
def test_a_restart_that_did_not_help_is_left_to_a_person(
    stage: Stage, outcome: Outcome | None, afterwards: Aftermath, ends: AttemptState
) -> None:
    stage.restarter.outcome = outcome or stage.restarter.outcome
    stage.witness.afterwards = afterwards
    stage.tell()
    stage.pass_(5000)
    assert stage.states == [ends]
    assert stage.told[-1] == "escalate not_recovered"
    assert stage.restarter.restarted == ["gpu-a"]
    stage.say(AlertState.GONE)
    stage.pass_(40)
    assert stage.incident.state is IncidentState.CLOSED


def test_in_shadow_nothing_is_restarted_and_what_comes_back_is_seen(tmp_path: Path) -> None:
    with staged(tmp_path, "gpu-a", mode=Mode.SHADOW) as stage:
        stage.tell()
        stage.turn()
        assert stage.states == [STARTING]
        stage.witness.afterwards = Aftermath(reading(e0=making.engine(steps=9999.0)))
        stage.pass_(20)
        assert stage.states == [RECOVERED]
        assert stage.restarter.restarted == []
        assert all(not asked for _, asked in stage.witness.looks)
        assert stage.store.attempts.restarts() == {}


def test_in_shadow_what_does_not_come_back_is_tried_no_second_time(tmp_path: Path) -> None:
    with staged(tmp_path, "gpu-a", mode=Mode.SHADOW) as stage:
        stage.tell()
        stage.pass_(86_500, tick=60)
        (only,) = stage.all_attempts
        assert only.state is AttemptState.STILL_STUCK
        assert only.shadow_outcome is ShadowOutcome.STAYED_STUCK
        assert stage.restarter.restarted == []


def test_the_fleet_has_its_limit(tmp_path: Path) -> None:
    names = ("gpu-a", "gpu-b", "gpu-c", "gpu-d")
    with staged(tmp_path, *names, max_parallel=9, storm_least=9) as stage:
        stage.tell(*(alert(backend=name, fingerprint=name) for name in names))
        stage.pass_(600)
        assert len(stage.restarter.restarted) == 3
        assert stage.told.count("hold fleet_limit") == 1


@pytest.mark.parametrize("label", ["../b", "a; rm -rf /", "$(x)", "gpu-a ", "GPU-A", "x" * 128])
def test_a_label_that_names_no_backend_reaches_nobody(stage: Stage, label: str) -> None:
    stage.tell(alert(backend=label))
    stage.pass_(60)
    assert stage.told == ["ignore unknown_backend"]
    assert stage.alertmanager.asked == 0
    assert stage.witness.proofs == []


def test_an_alert_that_does_not_ask_reaches_nobody(stage: Stage) -> None:
    stage.tell(alert(remediate=""))
    stage.pass_(60)
    assert stage.told == ["ignore not_asked_for"]
    assert stage.alertmanager.asked == 0


KILLS = ("while saving evidence", "before the command", "during the command")
COMES_BACK = {
    "it had not been restarted, and is stuck": (Aftermath(reading()), {INTERRUPTED}),
    "it had been restarted, and works": (BACK, {RECOVERED, INTERRUPTED}),
    "it is gone": (GONE, {AttemptState.NOT_BACK, INTERRUPTED}),
    "it is new, and silent": (
        Aftermath(reading(making.T0.timestamp() + 60), request=Request.UNANSWERED),
        {AttemptState.STILL_STUCK, INTERRUPTED},
    ),
}


@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize(("afterwards", "ends"), COMES_BACK.values(), ids=list(COMES_BACK))
def test_killed_in_an_attempt_and_started_again(
    stage: Stage, kill: str, afterwards: Aftermath, ends: set[AttemptState]
) -> None:
    stage.evidence.killed = kill == KILLS[0]
    stage.restarter.killed = {KILLS[1]: "before", KILLS[2]: "during"}.get(kill, "")
    stage.tell()
    stage.turn()
    assert stage.states == [PLANNED if kill == KILLS[0] else ACTING]
    run = len(stage.restarter.restarted)
    stage.kill_and_start()
    stage.witness.afterwards = afterwards
    stage.pass_(650)
    # What may have been done is not done again. Where nothing was, it is proven anew and done.
    assert len(stage.restarter.restarted) == (1 if kill == KILLS[0] else run)
    assert stage.states[0] in ends
    (first, *_) = stage.all_attempts
    assert not first.under_way


@pytest.mark.parametrize("kill", [KILLS[1], KILLS[2]])
def test_an_interrupted_attempt_that_shows_no_effect_is_followed_by_one_more(
    stage: Stage, kill: str
) -> None:
    stage.restarter.killed = "before" if kill == KILLS[1] else "during"
    stage.tell()
    stage.turn()
    begun = stage.clock.now
    stage.kill_and_start()
    stage.witness.afterwards = Aftermath(reading(), request=Request.UNANSWERED)
    stage.pass_(2000)
    assert stage.states[0] is INTERRUPTED
    assert len(stage.states) == 2
    second = stage.all_attempts[1]
    assert (second.planned_at - begun).total_seconds() >= 900


def test_an_interrupted_attempt_whose_effect_nobody_can_tell_is_left_to_a_person(
    stage: Stage,
) -> None:
    stage.witness.seen = making.proof(reading=reading(None))
    stage.restarter.killed = "during"
    stage.tell()
    stage.turn()
    stage.kill_and_start()
    stage.witness.afterwards = Aftermath(reading(None), request=Request.UNANSWERED)
    stage.pass_(5000)
    assert stage.states == [INTERRUPTED]
    assert stage.told[-1] == "escalate interrupted"


def test_a_command_whose_end_was_not_seen_may_be_running_still(tmp_path: Path) -> None:
    slow = backend(load_time=100.0, restart=Restart(Command(("true",)), timeout=50.0))
    with Stage(tmp_path, settings(slow)) as stage:
        stage.restarter.killed = "before"
        stage.tell()
        stage.turn()
        stage.kill_and_start()
        stage.witness.afterwards = Aftermath(reading(), request=Request.UNANSWERED)
        stage.pass_(10)
        taken_up = stage.clock.now
        while stage.states == [ACTING]:
            stage.pass_(5)
            taken_up = stage.clock.now
        stage.pass_(140)
        assert stage.states == [STARTING]
        stage.pass_(30)
        assert stage.states == [INTERRUPTED]
        (attempt,) = stage.all_attempts
        assert attempt.ended_at is not None
        assert (attempt.ended_at - taken_up).total_seconds() >= 145


def test_killed_before_the_gateways_may_use_it_again_they_are_told_after_all(
    tmp_path: Path,
) -> None:
    drained = backend(gateways=("http://127.0.0.1:1",))
    with Stage(tmp_path, settings(drained)) as stage:
        stage.gateways.killed_at_the_end = True
        stage.witness.afterwards = BACK
        stage.tell()
        stage.pass_(60)
        assert stage.gateways.drained == ["gpu-a"]
        assert stage.gateways.undrained == []
        stage.kill_and_start()
        stage.pass_(60)
        assert stage.states == [RECOVERED]
        assert stage.gateways.undrained == ["gpu-a"]


def test_killed_while_the_server_loads(stage: Stage) -> None:
    stage.witness.afterwards = GONE
    stage.tell()
    stage.pass_(100)
    stage.kill_and_start()
    stage.pass_(100)
    stage.witness.afterwards = BACK
    stage.kill_and_start()
    stage.pass_(20)
    assert stage.states == [RECOVERED]
    assert stage.restarter.restarted == ["gpu-a"]


def test_killed_after_each_step_of_the_whole_story(tmp_path: Path) -> None:
    """Whatever prefix of the story is played before the kill, there is one restart in the end."""
    for prefix in range(1, 12):
        folder = tmp_path / str(prefix)
        folder.mkdir()
        with Stage(folder) as stage:
            stage.tell()
            for step in range(12):
                if step == prefix:
                    stage.kill_and_start()
                    stage.tell()
                stage.witness.afterwards = GONE if step < 6 else BACK
                stage.pass_(10)
            stage.pass_(3000, tick=100.0)
            assert stage.restarter.restarted == ["gpu-a"], prefix
            assert stage.states == [RECOVERED], prefix


def test_a_backend_that_is_gone_from_fleet_yml_does_not_stay_under_way(stage: Stage) -> None:
    stage.witness.afterwards = GONE
    stage.tell()
    stage.turn()
    stage.settings = settings(backend("gpu-z"))
    stage.kill_and_start()
    stage.pass_(10)
    assert stage.states == [INTERRUPTED]


def test_an_attempt_that_ended_is_followed_no_further(stage: Stage) -> None:
    stage.witness.afterwards = BACK
    stage.tell()
    stage.pass_(60)
    looks = len(stage.witness.looks)
    stage.remedy.course.follow(stage.all_attempts[0].id)
    assert len(stage.witness.looks) == looks


def test_nothing_is_begun_once_we_are_stopping(stage: Stage) -> None:
    stage.witness.while_proving = stage.stopping.set
    stage.tell()
    stage.turn()
    assert stage.states == []
    assert stage.told == []
    assert stage.incident.state is IncidentState.OPEN
    stage.turn()
    assert len(stage.witness.proofs) == 1


def test_stopping_while_evidence_is_saved_leaves_the_attempt_to_the_next_start(
    stage: Stage,
) -> None:
    stage.alertmanager.when_asked = lambda n: stage.stopping.set() if n == 3 else None
    saved = stage.evidence.save

    def save(*args: object) -> str | None:
        stage.stopping.set()
        return saved(*args)  # type: ignore[arg-type]

    stage.evidence.save = save  # type: ignore[assignment]
    stage.tell()
    stage.turn()
    assert stage.states == [PLANNED]
    assert stage.restarter.restarted == []


def test_an_old_proof_decides_nothing_and_the_incident_stays_due(stage: Stage) -> None:
    def slow(times: int) -> None:
        if times == 2:
            stage.clock.advance(31)

    stage.alertmanager.when_asked = slow
    stage.tell()
    stage.turn()
    assert stage.restarter.restarted == []
    assert stage.told == []
    stage.turn()
    assert stage.restarter.restarted == ["gpu-a"]


def test_an_attempt_that_another_began_meanwhile_holds_ours(stage: Stage) -> None:
    stage.tell(alert(), alert(backend="gpu-a", fingerprint="other", engine="1"))
    first, other = sorted(stage.store.incidents.due(stage.clock()), key=lambda i: i.id)

    def another_begins() -> None:
        planned(stage.store, other, Mode.ACT, None, stage.clock())

    stage.witness.while_proving = another_begins
    stage.remedy.consider(first.id, lambda: True)
    assert stage.told == ["hold under_way"]
    assert stage.restarter.restarted == []


def test_one_backend_never_holds_up_another(tmp_path: Path) -> None:
    later = Later()
    both = settings(backend("gpu-a"), backend("gpu-b"), max_parallel=2)
    with Stage(tmp_path, both, later) as stage:
        stage.tell(
            alert(), alert(engine="1", fingerprint="x"), alert(backend="gpu-b", fingerprint="b")
        )
        stage.turn()
        stage.turn()
        assert len(later.jobs) == 2  # one for each backend, however many incidents it has
        assert not stage.worker.wait_idle(0.0)
        later.run_all()
        assert stage.worker.wait_idle(0.0)
        assert sorted(stage.restarter.restarted) == ["gpu-a", "gpu-b"]


def test_a_job_that_breaks_is_told_and_tried_again_later(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    stage.witness.while_proving = broken
    stage.tell()
    stage.turn()
    assert "event=job_failed backend=gpu-a" in caplog.text
    stage.pass_(20)
    assert len(stage.witness.proofs) == 1
    stage.witness.while_proving = lambda: None
    stage.pass_(20)
    assert stage.restarter.restarted == ["gpu-a"]


def test_a_database_that_fails_before_the_act_prevents_it(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    advance = stage.store.attempts.advance

    def broken(*_: object, **__: object) -> object:
        raise StorageError("the disk is full")

    stage.store.attempts.advance = broken  # type: ignore[assignment, method-assign]
    stage.tell()
    stage.turn()
    assert stage.restarter.restarted == []
    assert "event=storage_failed backend=gpu-a" in caplog.text
    stage.store.attempts.advance = advance  # type: ignore[method-assign]
    stage.turn()
    assert stage.states[0] is INTERRUPTED


def test_the_loop_turns_until_it_is_stopped_and_survives_what_it_meets(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    troubles = iter([StorageError("locked"), ZeroDivisionError()])
    due = stage.store.incidents.due

    def meets(now: object, **_: object) -> object:
        for trouble in troubles:
            stage.worker.wake()
            raise trouble
        stage.stopping.set()
        stage.worker.wake()
        return due(now)  # type: ignore[arg-type]

    stage.store.incidents.due = meets  # type: ignore[assignment, method-assign]
    with in_background(stage.worker.run):
        pass
    assert "event=storage_failed why=locked" in caplog.text
    assert "event=turn_failed" in caplog.text


def test_a_loop_that_does_not_turn_is_in_trouble(stage: Stage) -> None:
    assert stage.worker.trouble() is None
    stage.clock.advance(STALLED_SECONDS + 1)
    assert stage.worker.trouble() == "no turn for 31 s"
    stage.turn()
    assert stage.worker.trouble() is None


def test_what_was_closed_long_ago_is_forgotten_and_attempts_never(stage: Stage) -> None:
    stage.witness.afterwards = BACK
    stage.tell(alert(), alert(fingerprint="b", backend="unknown"))
    stage.pass_(60)
    assert len(stage.store.incidents.newest(10)) == 2
    stage.clock.advance(31 * 86400)
    stage.turn()
    assert [incident.backend for incident in stage.store.incidents.newest(10)] == ["gpu-a"]
    assert {line.backend for line in stage.store.incidents.newest_decisions(10)} == {"gpu-a"}
    assert stage.states == [RECOVERED]


def test_an_alert_that_says_dead_restarts_what_nobody_listens_at(stage: Stage) -> None:
    stage.witness.seen = making.proof(
        saw=Saw(Sight.REFUSED, "the connection was refused"), request=Request.ERROR, reading=None
    )
    stage.tell(alert(symptom=Symptom.DEAD, engine=None))
    stage.turn()
    assert stage.told == ["restart dead"]
    stage.witness.afterwards = BACK
    stage.pass_(20)
    assert stage.states == [RECOVERED]


def test_one_line_for_each_decision_and_only_when_it_changes(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stage.say(AlertState.SILENCED)
    stage.tell()
    stage.pass_(300)
    lines = [record.message for record in caplog.records if "decision=" in record.message]
    assert len(lines) == 1
    assert lines[0].startswith("decision=hold reason=silenced backend=gpu-a incident=1 until=2026-")
    assert stage.journal.decisions() == {(Action.HOLD, Reason.SILENCED): 1}


def test_of_many_that_are_due_some_begin_in_each_turn_and_those_in_hand_keep_nobody_waiting(
    tmp_path: Path,
) -> None:
    names = [f"gpu-{n}" for n in range(3 * MOST_PER_TURN)]
    begun: list[Callable[[], None]] = []
    with Stage(tmp_path, settings(*map(backend, names)), start=begun.append) as stage:
        stage.tell(*(alert(backend=name, fingerprint=name) for name in names))
        for turns in (1, 2, 3, 4):
            stage.turn()
            assert len(begun) == min(turns, 3) * MOST_PER_TURN
