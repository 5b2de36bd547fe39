"""No history whatever leads to a restart that must not be.

A fleet is played for hours with everything drawn at random: alerts, silences, what looks show, how
attempts end, who restarts what, and when we are killed.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleet.settings import Mode
from remediator.case import AlertState, Case, Standing
from remediator.decision import Restart, Verify
from remediator.incident import ENDS, Attempt, AttemptState, IncidentState
from remediator.notification import Symptom
from remediator.policy import decide
from remediator.proof import Proof, Request, Saw, Sight
from tests.remediator.making import T0, at, attempt, backend, case, incident, limits, proof, reading

NAMES = ("gpu-a", "gpu-b", "gpu-c")


@dataclass(frozen=True)
class Moment:
    """One decision's surroundings, ``later`` seconds after the one before."""

    later: float
    backend: str
    incident_id: int
    begun: float  # seconds before now
    symptom: Symptom
    standing: AlertState
    sight: Sight
    request: Request
    dead: bool
    paused: bool
    watched: float
    proof_age: float
    started: float | None  # seconds before now
    ends: AttemptState | None  # the backend's attempt under way ends like this first


moments = st.builds(
    Moment,
    later=st.floats(0, 1200),
    backend=st.sampled_from(NAMES),
    incident_id=st.integers(1, 4),
    begun=st.floats(0, 4000),
    symptom=st.sampled_from(Symptom),
    standing=st.sampled_from([AlertState.ACTIVE] * 6 + list(AlertState)),
    sight=st.sampled_from([Sight.STILL] * 6 + list(Sight)),
    request=st.sampled_from([Request.UNANSWERED] * 4 + list(Request)),
    dead=st.booleans(),
    paused=st.sampled_from([False, False, False, True]),
    watched=st.sampled_from([31.0, 31.0, 31.0, 3.0]),
    proof_age=st.sampled_from([0.0, 0.0, 0.0, 31.0]),
    started=st.none() | st.floats(0, 10_000),
    ends=st.sampled_from([*ENDS, *ENDS, None]),
)


@dataclass
class Fleet:
    """A fleet and our remedy of it, on a clock of its own."""

    mode: Mode
    now: datetime = T0
    attempts: list[Attempt] = field(default_factory=list)

    def live(self, moment: Moment) -> tuple[Case, Restart] | None:
        """Let a moment pass; tell the case and the decision if it was to restart."""
        self.now += timedelta(seconds=moment.later)
        if moment.ends is not None:
            self.attempts = [
                replace(a, state=moment.ends, ended_at=self.now)
                if a.under_way and a.backend == moment.backend
                else a
                for a in self.attempts
            ]
        looked_at = self._case(moment)
        decision = decide(looked_at, self.now)
        if not isinstance(decision, Restart):
            return None
        assert isinstance(decide(replace(looked_at, proof=None), self.now), Verify)
        self.attempts.append(
            attempt(
                AttemptState.STARTING,
                id=len(self.attempts) + 1,
                incident_id=moment.incident_id,
                backend=moment.backend,
                mode=self.mode,
                planned_at=self.now,
                acting_at=self.now,
                before=looked_at.proof.reading if looked_at.proof else None,
            )
        )
        return looked_at, decision

    def _case(self, moment: Moment) -> Case:
        began = self.now - timedelta(seconds=moment.begun)
        start = None if moment.started is None else self.now.timestamp() - moment.started
        return Case(
            incident=incident(
                id=moment.incident_id,
                backend=moment.backend,
                starts_at=began,
                symptom=moment.symptom,
                state=IncidentState.OPEN,
            ),
            backend=backend(moment.backend),
            attempts=tuple(self.attempts),
            standing=Standing(moment.standing, "drawn", began),
            settings=limits(mode=self.mode, fleet_restarts=2, cool_down=900.0),
            proof=Proof(
                at=self.now - timedelta(seconds=moment.proof_age),
                seconds=moment.watched,
                saw=Saw(moment.sight, "drawn"),
                dead=moment.dead,
                request=moment.request,
                request_why="drawn",
                paused=moment.paused,
                reading=None if moment.sight is Sight.REFUSED else reading(start),
            ),
        )


@given(st.lists(moments, max_size=40), st.sampled_from(Mode))
def test_no_history_leads_to_a_restart_that_must_not_be(history: list[Moment], mode: Mode) -> None:
    fleet = Fleet(mode)
    for moment in history:
        restarted = fleet.live(moment)
        if restarted is None:
            continue
        looked_at, _ = restarted
        seen = looked_at.proof
        assert seen is not None
        assert looked_at.standing.state is AlertState.ACTIVE
        assert seen.request is not Request.ANSWERED
        assert seen.seconds >= looked_at.settings.confirm_for
        assert not seen.paused
        assert seen.saw.sight in (Sight.STILL, Sight.REFUSED) or (
            seen.dead and seen.saw.sight is Sight.UNREADABLE and moment.symptom is Symptom.DEAD
        )
        assert seen.request is Request.UNANSWERED or seen.dead or seen.saw.sight is Sight.REFUSED
    assert_limits_kept(fleet.attempts)


def assert_limits_kept(attempts: list[Attempt]) -> None:
    for i, one in enumerate(attempts):
        window = [
            other
            for other in attempts[: i + 1]
            if other.planned_at > one.planned_at - timedelta(seconds=3600)
        ]
        assert len(window) <= 2, "more than fleet_restarts in fleet_window"
        for other in attempts[:i]:
            if other.backend == one.backend:
                assert one.planned_at - other.planned_at >= timedelta(seconds=900), "cool_down"


def test_the_game_does_restart_things() -> None:
    fleet = Fleet(Mode.ACT)
    moment = Moment(
        later=1000.0,
        backend="gpu-a",
        incident_id=1,
        begun=100.0,
        symptom=Symptom.STUCK,
        standing=AlertState.ACTIVE,
        sight=Sight.STILL,
        request=Request.UNANSWERED,
        dead=False,
        paused=False,
        watched=31.0,
        proof_age=0.0,
        started=9000.0,
        ends=AttemptState.RECOVERED,
    )
    later = [replace(moment, incident_id=i) for i in range(1, 5)]
    assert [fleet.live(each) is not None for each in later] == [True, False, True, False]


@given(
    st.sampled_from(list(Sight)),
    st.sampled_from(list(Request)),
    st.booleans(),
    st.sampled_from(list(AttemptState)),
)
def test_an_incident_is_restarted_once_however_its_attempt_ended(
    sight: Sight,
    request: Request,
    dead: bool,
    ended: AttemptState,
) -> None:
    """Unless it was interrupted, and the start time shows that the process is the same one."""
    seen = proof(saw=Saw(sight, "drawn"), request=request, dead=dead, reading=reading(None))
    before = attempt(
        ended,
        incident_id=1,
        planned_at=at(-5000),
        acting_at=at(-5000),
        ended_at=at(-4000),
        before=reading(None),
    )
    decision = decide(case(proof=seen, attempts=(before,)), at(100))
    assert not isinstance(decision, Restart)
