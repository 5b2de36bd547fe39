"""No history whatever leads to a restart that must not be.

A fleet is played for hours with everything drawn at random: alerts, silences, what looks show, how
attempts end, who restarts what, and when we are killed.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from fleet.settings import Mode
from remediator.case import AlertState, Case, Standing
from remediator.decision import Reason, Restart, Verify
from remediator.incident import ENDS, Attempt, AttemptState, IncidentState, Origin
from remediator.notification import Symptom
from remediator.policy import decide
from remediator.proof import Proof, Request, Saw, Sight
from remediator.record import HoldBack, Record
from tests.remediator.making import T0, at, attempt, backend, case, incident, limits, proof, reading

NAMES = ("gpu-a", "gpu-b", "gpu-c")
DAY = timedelta(days=1)
LIMITS = partial(
    limits,
    cool_down=900.0,
    longest_cool_down=3000.0,
    helped_after=1500.0,
    give_up_after=2,
    backend_restarts=2,
    backend_window=4000.0,
    fleet_restarts=3,
    fleet_window=3600.0,
    max_parallel=1,
    storm_least=3,
)


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
    foreign: float | None  # seconds before now that somebody else started it
    ends: AttemptState | None  # the backend's attempt under way ends like this first
    held: bool
    reset: bool
    trouble: frozenset[str]
    by_a_person: bool


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
    foreign=st.none() | st.none() | st.floats(0, 10_000),
    held=st.sampled_from([False] * 5 + [True]),
    reset=st.sampled_from([False] * 9 + [True]),
    trouble=st.sampled_from([frozenset[str]()] * 4 + [frozenset(NAMES)]),
    by_a_person=st.sampled_from([False] * 5 + [True]),
    ends=st.sampled_from([*ENDS, *ENDS, None]),
)


@dataclass
class Fleet:
    """A fleet and our remedy of it, on a clock of its own."""

    mode: Mode
    now: datetime = T0
    attempts: list[Attempt] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)

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
        self._remember(moment)
        looked_at = self._case(moment)
        decision = decide(looked_at, self.now)
        if decision.reason is Reason.GAVE_UP:
            record = self.records[moment.backend]
            self.records[moment.backend] = replace(record, given_up_at=self.now)
        if not isinstance(decision, Restart):
            return None
        if not moment.by_a_person:
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

    def _remember(self, moment: Moment) -> None:
        record = self.records.get(moment.backend, Record())
        if moment.foreign is not None:
            record = replace(record, last_foreign=self.now - timedelta(seconds=moment.foreign))
        if moment.reset:
            record = replace(record, given_up_at=None, reset_at=self.now)
        self.records[moment.backend] = record

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
                origin=Origin.PERSON if moment.by_a_person else Origin.ALERT,
            ),
            backend=backend(moment.backend),
            attempts=tuple(self.attempts),
            standing=Standing(moment.standing, "drawn", began),
            settings=LIMITS(mode=self.mode),
            holds=(HoldBack(1, "*", T0, self.now + DAY, "ann", "so"),) if moment.held else (),
            record=self.records[moment.backend],
            fleet=frozenset(NAMES),
            in_trouble=moment.trouble,
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
        under_way = {a.backend for a in fleet.attempts if a.under_way}
        given_up = {name for name, record in fleet.records.items() if record.given_up_at}
        restarted = fleet.live(moment)
        if restarted is None:
            continue
        looked_at, _ = restarted
        under_way -= {moment.backend} if moment.ends else set()
        assert not moment.held
        assert moment.backend not in given_up or moment.reset
        assert not moment.trouble
        if mode is Mode.ACT:
            assert not under_way, "more than max_parallel"
        if moment.foreign is not None:
            assert moment.foreign >= 900, "cool_down from somebody else's restart"
        if moment.by_a_person:
            assert mode is Mode.ACT
        else:
            assert_proven(moment, looked_at)
    assert_limits_kept(fleet.attempts)


def assert_proven(moment: Moment, looked_at: Case) -> None:
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


def assert_limits_kept(attempts: list[Attempt]) -> None:
    for i, one in enumerate(attempts):
        earlier = attempts[: i + 1]
        in_an_hour = [a for a in earlier if a.planned_at > one.planned_at - timedelta(seconds=3600)]
        assert len(in_an_hour) <= 3, "more than fleet_restarts in fleet_window"
        own = [a for a in earlier if a.backend == one.backend]
        in_window = [a for a in own if a.planned_at > one.planned_at - timedelta(seconds=4000)]
        assert len(in_window) <= 2, "more than backend_restarts in backend_window"
        for other in own[:-1]:
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
        foreign=None,
        ends=AttemptState.RECOVERED,
        held=False,
        reset=False,
        trouble=frozenset(),
        by_a_person=False,
    )
    later = [replace(moment, incident_id=i) for i in range(1, 6)]
    # Each second moment sees the attempt's end. Neither attempt helped: two in a row are enough.
    assert [fleet.live(each) is not None for each in later] == [True, False, True, False, False]
    assert fleet.records["gpu-a"].given_up_at is not None
    assert fleet.live(replace(moment, incident_id=6, later=90_000.0)) is None
    assert fleet.live(replace(moment, incident_id=7, reset=True)) is not None


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
