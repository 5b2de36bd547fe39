"""Every question, in a table: what is changed in a case that ends in a restart, and its end."""

from dataclasses import replace
from datetime import datetime

import pytest

from fleet.backend import Kind
from fleet.settings import Mode, Unreachable
from remediator.case import NOT_ASKED, AlertState, Case, Standing
from remediator.decision import RECORDED, Action, Decision, Hold, Reason
from remediator.incident import Attempt, AttemptState, IncidentState, Origin
from remediator.notification import Symptom
from remediator.policy import decide
from remediator.proof import Request, Saw, Sight
from remediator.record import HoldBack, Record
from tests.remediator.making import (
    ACTIVE,
    at,
    attempt,
    backend,
    case,
    incident,
    limits,
    proof,
    reading,
)

NOW = at(100)
VERIFY = (Action.VERIFY, Reason.NOTHING_AGAINST_IT)
MINE = attempt(incident_id=1, planned_at=at(-2000), ended_at=at(-1900))


def told(decision: Decision) -> tuple[Action, Reason]:
    return decision.action, decision.reason


def standing(state: AlertState, began: datetime | None = None) -> Standing:
    return Standing(state, "so it is", began)


SIX = frozenset(f"gpu-{letter}" for letter in "abcdef")
PLANNED = incident(origin=Origin.PERSON, remediate="", asked_by="ann", asked_why="new driver")


def relapsed(seconds: float) -> Attempt:
    """A restart that brought it back for a quarter of an hour or so."""
    return attempt(planned_at=at(seconds - 100), ended_at=at(seconds + 100))


def hold(**changed: object) -> HoldBack:
    standard = HoldBack(3, "gpu-a", at(0), at(1000), "ann", "a batch runs")
    return replace(standard, **changed)  # type: ignore[arg-type]


BEFORE_THE_PROOF = {
    "nothing stands against it": (case(), VERIFY),
    "the label remediate is missing": (
        case(incident=incident(remediate="")),
        (Action.IGNORE, Reason.NOT_ASKED_FOR),
    ),
    "the label remediate asks for something else": (
        case(incident=incident(remediate="restart ")),
        (Action.IGNORE, Reason.NOT_ASKED_FOR),
    ),
    "an alert of any other name that asks is taken": (
        case(incident=incident(alertname="Anything")),
        VERIFY,
    ),
    "an alert that does not ask is not looked at further": (
        case(incident=incident(remediate=""), backend=None),
        (Action.IGNORE, Reason.NOT_ASKED_FOR),
    ),
    "a backend that fleet.yml does not have": (
        case(backend=None),
        (Action.IGNORE, Reason.UNKNOWN_BACKEND),
    ),
    "a proxy": (case(backend=backend(kind=Kind.PROXY)), (Action.ESCALATE, Reason.PROXY)),
    "an alert that is resolved": (
        case(incident=incident(state=IncidentState.CLOSED)),
        (Action.IGNORE, Reason.RESOLVED),
    ),
    "an alert whose end has come": (
        case(incident=incident(ends_at=NOW)),
        (Action.IGNORE, Reason.STALE),
    ),
    "an alert whose end is to come": (case(incident=incident(ends_at=at(101))), VERIFY),
    "an alert that begins in a minute": (
        case(incident=incident(starts_at=at(160)), standing=standing(AlertState.ACTIVE, at(160))),
        VERIFY,
    ),
    "an alert that begins later than in a minute": (
        case(incident=incident(starts_at=at(161))),
        (Action.HOLD, Reason.CLOCKS_DISAGREE),
    ),
    "an attempt for this incident that helped": (
        case(attempts=(MINE,)),
        (Action.IGNORE, Reason.ALREADY_HANDLED),
    ),
    "an attempt for this incident in shadow, which counts for nothing in act": (
        case(attempts=(replace(MINE, mode=Mode.SHADOW),)),
        VERIFY,
    ),
    "an attempt for this incident in shadow, in shadow": (
        case(attempts=(replace(MINE, mode=Mode.SHADOW),), settings=limits(mode=Mode.SHADOW)),
        (Action.IGNORE, Reason.ALREADY_HANDLED),
    ),
    "silenced": (case(standing=standing(AlertState.SILENCED)), (Action.HOLD, Reason.SILENCED)),
    "inhibited": (case(standing=standing(AlertState.INHIBITED)), (Action.HOLD, Reason.INHIBITED)),
    "gone": (case(standing=standing(AlertState.GONE)), (Action.IGNORE, Reason.GONE)),
    "Alertmanager cannot be asked": (
        case(standing=standing(AlertState.UNKNOWN)),
        (Action.HOLD, Reason.ALERTMANAGER_UNREACHABLE),
    ),
    "Alertmanager was not asked": (
        case(standing=NOT_ASKED),
        (Action.HOLD, Reason.ALERTMANAGER_UNREACHABLE),
    ),
    "active, without a word since when": (case(standing=standing(AlertState.ACTIVE)), VERIFY),
    "active since a millisecond's rounding": (
        case(standing=standing(AlertState.ACTIVE, at(0.999))),
        VERIFY,
    ),
    "active since earlier, as another replica saw it": (
        case(standing=standing(AlertState.ACTIVE, at(-15))),
        VERIFY,
    ),
    "active anew": (
        case(standing=standing(AlertState.ACTIVE, at(1))),
        (Action.IGNORE, Reason.SUPERSEDED),
    ),
    "silenced counts before restarted": (
        case(
            standing=standing(AlertState.SILENCED),
            attempts=(attempt(AttemptState.FAILED, ended_at=at(50)),),
        ),
        (Action.HOLD, Reason.SILENCED),
    ),
    "an attempt for another alert of this backend helped since": (
        case(attempts=(attempt(planned_at=at(10), ended_at=at(50)),)),
        (Action.HOLD, Reason.RESTARTED_SINCE),
    ),
    "one that was begun before the alert and ended since": (
        case(attempts=(attempt(planned_at=at(-10), ended_at=at(50)),)),
        (Action.HOLD, Reason.RESTARTED_SINCE),
    ),
    "one that ended before the alert and the cool-down": (
        case(attempts=(attempt(ended_at=at(-900)),)),
        VERIFY,
    ),
    "an attempt that left it stuck": (
        case(attempts=(attempt(AttemptState.STILL_STUCK, ended_at=at(50)),)),
        (Action.ESCALATE, Reason.NOT_RECOVERED),
    ),
    "an attempt that left it down": (
        case(attempts=(attempt(AttemptState.NOT_BACK, ended_at=at(50)),)),
        (Action.ESCALATE, Reason.NOT_RECOVERED),
    ),
    "an attempt of this incident that failed, by a clock that went back": (
        case(attempts=(replace(MINE, state=AttemptState.FAILED),)),
        (Action.ESCALATE, Reason.NOT_RECOVERED),
    ),
    "the last attempt counts": (
        case(
            attempts=(
                attempt(ended_at=at(60)),
                attempt(AttemptState.FAILED, id=8, ended_at=at(50)),
            )
        ),
        (Action.HOLD, Reason.RESTARTED_SINCE),
    ),
    "an attempt on another backend": (
        case(attempts=(attempt(backend="gpu-b", ended_at=at(50)),)),
        VERIFY,
    ),
    "an attempt under way, planned": (
        case(attempts=(attempt(AttemptState.PLANNED, planned_at=at(90)),)),
        (Action.HOLD, Reason.UNDER_WAY),
    ),
    "an attempt under way, acting": (
        case(attempts=(attempt(AttemptState.ACTING, acting_at=at(90)),)),
        (Action.HOLD, Reason.UNDER_WAY),
    ),
    "an attempt under way, starting": (
        case(attempts=(attempt(AttemptState.STARTING, starting_at=at(90)),)),
        (Action.HOLD, Reason.UNDER_WAY),
    ),
    "an attempt under way in shadow": (
        case(attempts=(attempt(AttemptState.STARTING, mode=Mode.SHADOW),)),
        (Action.HOLD, Reason.UNDER_WAY),
    ),
    "an attempt under way on another backend": (
        case(attempts=(attempt(AttemptState.STARTING, backend="gpu-b"),)),
        (Action.HOLD, Reason.MAX_PARALLEL),
    ),
    "an attempt under way on another backend, where two may be": (
        case(
            attempts=(attempt(AttemptState.STARTING, backend="gpu-b"),),
            settings=limits(max_parallel=2),
        ),
        VERIFY,
    ),
    "one in shadow that a real restart would have ended long ago": (
        case(
            attempts=(
                attempt(
                    AttemptState.STARTING,
                    backend="gpu-b",
                    mode=Mode.SHADOW,
                    planned_at=at(-4000),
                ),
            ),
            settings=limits(mode=Mode.SHADOW),
        ),
        VERIFY,
    ),
    "one in shadow that a real restart would not have ended yet": (
        case(
            attempts=(
                attempt(
                    AttemptState.STARTING, backend="gpu-b", mode=Mode.SHADOW, planned_at=at(-400)
                ),
            ),
            settings=limits(mode=Mode.SHADOW),
        ),
        (Action.HOLD, Reason.MAX_PARALLEL),
    ),
    "cooling down by a second": (
        case(attempts=(attempt(ended_at=at(-799)),)),
        (Action.HOLD, Reason.COOLING_DOWN),
    ),
    "cooled down to the second": (case(attempts=(attempt(ended_at=at(-800)),)), VERIFY),
    "cooling down from an attempt that was interrupted": (
        case(attempts=(attempt(AttemptState.INTERRUPTED, incident_id=1, ended_at=at(50)),)),
        (Action.HOLD, Reason.COOLING_DOWN),
    ),
    "an attempt that was interrupted before the act": (
        case(
            attempts=(
                attempt(AttemptState.INTERRUPTED, incident_id=1, acting_at=None, ended_at=at(50)),
            )
        ),
        VERIFY,
    ),
    "cooling down for as long as it takes to load": (
        case(
            attempts=(attempt(ended_at=at(-899)),),
            record=Record(loads=(10.0, 1000.0)),
        ),
        (Action.HOLD, Reason.COOLING_DOWN),
    ),
    "cooling down from a restart by somebody else": (
        case(record=Record(last_foreign=at(-799))),
        (Action.HOLD, Reason.COOLING_DOWN),
    ),
    "restarted by somebody else since the alert began": (
        case(record=Record(last_foreign=at(1))),
        (Action.HOLD, Reason.RESTARTED_SINCE),
    ),
    "the first restart did not help: its cool-down is as ever": (
        case(attempts=(relapsed(-900),)),
        VERIFY,
    ),
    "two did not help: twice as long": (
        case(attempts=(relapsed(-1799), relapsed(-4000))),
        (Action.HOLD, Reason.COOLING_DOWN),
    ),
    "two did not help, and it was twice as long": (
        case(attempts=(relapsed(-1800), relapsed(-4000))),
        VERIFY,
    ),
    "three did not help": (
        case(attempts=(relapsed(-2000), relapsed(-4000), relapsed(-6000))),
        (Action.ESCALATE, Reason.GAVE_UP),
    ),
    "two of the three were before a person said reset": (
        case(
            attempts=(relapsed(-2000), relapsed(-4000), relapsed(-6000)),
            record=Record(reset_at=at(-3000)),
        ),
        VERIFY,
    ),
    "the second of three helped": (
        case(attempts=(relapsed(-2000), relapsed(-6000), relapsed(-8000))),
        VERIFY,
    ),
    "given up long ago": (
        case(record=Record(given_up_at=at(-1e6), given_up_why="so")),
        (Action.ESCALATE, Reason.GAVE_UP),
    ),
    "held by a person": (
        case(holds=(hold(),)),
        (Action.HOLD, Reason.HELD),
    ),
    "the whole fleet held": (
        case(holds=(hold(backend="*"),)),
        (Action.HOLD, Reason.HELD),
    ),
    "held no longer": (case(holds=(hold(until=NOW),)), VERIFY),
    "released": (case(holds=(hold(released_at=at(50)),)), VERIFY),
    "another one held": (case(holds=(hold(backend="gpu-b"),)), VERIFY),
    "Alertmanager cannot be asked, and need not be": (
        case(
            standing=standing(AlertState.UNKNOWN),
            settings=limits(alertmanager_unreachable=Unreachable.GO_ON),
        ),
        VERIFY,
    ),
    "silenced, where it need not be asked": (
        case(
            standing=standing(AlertState.SILENCED),
            settings=limits(alertmanager_unreachable=Unreachable.GO_ON),
        ),
        (Action.HOLD, Reason.SILENCED),
    ),
    "it has had its restarts": (
        case(
            attempts=tuple(attempt(planned_at=at(-5000 * i), ended_at=at(-900)) for i in range(4)),
            settings=limits(fleet_restarts=9, helped_after=1.0, give_up_after=9),
        ),
        (Action.HOLD, Reason.BACKEND_LIMIT),
    ),
    "it has one left": (
        case(
            attempts=tuple(attempt(planned_at=at(-5000 * i), ended_at=at(-900)) for i in range(3)),
            settings=limits(fleet_restarts=9, helped_after=1.0, give_up_after=9),
        ),
        VERIFY,
    ),
    "half of the fleet is in trouble, by its incidents": (
        case(fleet=SIX, in_trouble=frozenset({"gpu-a", "gpu-b", "gpu-c"})),
        (Action.HOLD, Reason.TOO_MANY_UNHEALTHY),
    ),
    "half of the fleet is in trouble, by its alerts": (
        case(
            fleet=SIX,
            standing=replace(ACTIVE, in_trouble=frozenset({"gpu-b", "gpu-c", "gpu-z"})),
        ),
        (Action.HOLD, Reason.TOO_MANY_UNHEALTHY),
    ),
    "less than half of it is": (
        case(fleet=SIX, in_trouble=frozenset({"gpu-a", "gpu-b", "gpu-z"})),
        VERIFY,
    ),
    "all of a fleet of two is": (
        case(fleet=frozenset({"gpu-a", "gpu-b"}), in_trouble=frozenset({"gpu-a", "gpu-b"})),
        VERIFY,
    ),
    "a person plans one": (case(incident=PLANNED), (Action.RESTART, Reason.PLANNED)),
    "a person planned one a while ago, when nobody could begin it": (
        case(incident=replace(PLANNED, opened_at=at(-201))),
        (Action.IGNORE, Reason.STALE),
    ),
    "a person planned one just now": (
        case(incident=replace(PLANNED, opened_at=at(-200))),
        (Action.RESTART, Reason.PLANNED),
    ),
    "a person plans one in shadow": (
        case(incident=PLANNED, settings=limits(mode=Mode.SHADOW)),
        (Action.IGNORE, Reason.SHADOW_MODE),
    ),
    "a person plans one of what is held": (
        case(incident=PLANNED, holds=(hold(),)),
        (Action.HOLD, Reason.HELD),
    ),
    "a person plans one and Alertmanager cannot be asked": (
        case(incident=PLANNED, standing=NOT_ASKED),
        (Action.RESTART, Reason.PLANNED),
    ),
    "a person plans one too soon": (
        case(incident=PLANNED, attempts=(attempt(ended_at=at(-700)),)),
        (Action.HOLD, Reason.COOLING_DOWN),
    ),
    "a planned one has been made, and did not help": (
        case(incident=PLANNED, attempts=(replace(MINE, state=AttemptState.NOT_BACK),)),
        (Action.IGNORE, Reason.ALREADY_HANDLED),
    ),
    "the fleet has had its restarts": (
        case(
            attempts=tuple(
                attempt(backend=name, planned_at=at(-60 * i)) for i, name in enumerate("bcd")
            )
        ),
        (Action.HOLD, Reason.FLEET_LIMIT),
    ),
    "the fleet has one left": (
        case(attempts=tuple(attempt(backend=name, planned_at=at(-60)) for name in "bc")),
        VERIFY,
    ),
    "the fleet's first restart has left the window": (
        case(
            attempts=(
                attempt(backend="b", planned_at=at(-3500)),
                attempt(backend="c", planned_at=at(-60)),
                attempt(backend="d", planned_at=at(-60)),
            )
        ),
        VERIFY,
    ),
    "no restart command": (
        case(backend=backend(restart=None)),
        (Action.ESCALATE, Reason.CANNOT_RESTART),
    ),
}


@pytest.mark.parametrize(
    ("looked_at", "expected"), BEFORE_THE_PROOF.values(), ids=list(BEFORE_THE_PROOF)
)
def test_before_the_proof(looked_at: Case, expected: tuple[Action, Reason]) -> None:
    assert told(decide(looked_at, NOW)) == expected


PAUSED = (Action.HOLD, Reason.PAUSED)
CANNOT_VERIFY = (Action.HOLD, Reason.CANNOT_VERIFY)
STUCK = (Action.RESTART, Reason.STUCK)
DEAD = (Action.RESTART, Reason.DEAD)
SAYS_DEAD = incident(symptom=Symptom.DEAD, engine=None)
REFUSED = proof(
    saw=Saw(Sight.REFUSED, "the connection was refused"),
    request=Request.ERROR,
    request_why="no model to ask: the connection was refused",
    reading=None,
)
GONE_503 = proof(
    saw=Saw(Sight.UNREADABLE, "/metrics answered HTTP 503"),
    dead=True,
    request=Request.ERROR,
    reading=None,
)
BROKEN_OFF = attempt(
    AttemptState.INTERRUPTED,
    incident_id=1,
    planned_at=at(-2000),
    acting_at=at(-2000),
    ended_at=at(-1900),
    before=reading(),
)


def saw(sight: Sight) -> Saw:
    return Saw(sight, "so it was")


WITH_THE_PROOF = {
    "silent, and no answer": (case(proof=proof()), STUCK),
    "taken half a minute ago": (case(proof=proof(at=at(70))), STUCK),
    "taken longer ago": (case(proof=proof(at=at(69))), VERIFY),
    "taken in the future": (case(proof=proof(at=at(101))), VERIFY),
    "asleep": (case(proof=proof(saw=saw(Sight.ASLEEP))), (Action.HOLD, Reason.ASLEEP)),
    "paused": (case(proof=proof(paused=True)), PAUSED),
    "it answered": (
        case(proof=proof(request=Request.ANSWERED, seconds=1.0)),
        (Action.IGNORE, Reason.PROGRESSING),
    ),
    "it moved, and was not asked": (
        case(proof=proof(saw=saw(Sight.MOVED), request=Request.NOT_SENT, seconds=5.0)),
        (Action.HOLD, Reason.PROGRESSING),
    ),
    "it moved while it did not answer": (
        case(proof=proof(saw=saw(Sight.MOVED))),
        (Action.HOLD, Reason.PROGRESSING),
    ),
    "it restarted under our eyes": (
        case(proof=proof(saw=saw(Sight.RESTARTED))),
        (Action.HOLD, Reason.RESTARTED_SINCE),
    ),
    "watched too short": (case(proof=proof(seconds=14.9)), CANNOT_VERIFY),
    "watched just long enough": (case(proof=proof(seconds=15.0)), STUCK),
    "not seen": (case(proof=proof(saw=saw(Sight.UNREADABLE))), CANNOT_VERIFY),
    "not seen, and soon given up": (
        case(proof=proof(saw=saw(Sight.UNREADABLE), seconds=5.0)),
        CANNOT_VERIFY,
    ),
    "an HTTP error is no silence": (case(proof=proof(request=Request.ERROR)), CANNOT_VERIFY),
    "a request that was not sent is no silence": (
        case(proof=proof(request=Request.NOT_SENT)),
        CANNOT_VERIFY,
    ),
    "started after the alert": (
        case(proof=proof(reading=reading(at(1).timestamp()))),
        (Action.HOLD, Reason.RESTARTED_SINCE),
    ),
    "started before the alert, by somebody, within the cool-down": (
        case(proof=proof(reading=reading(at(-799).timestamp()))),
        (Action.HOLD, Reason.COOLING_DOWN),
    ),
    "started longer ago": (case(proof=proof(reading=reading(at(-800).timestamp()))), STUCK),
    "started we do not know when": (case(proof=proof(reading=reading(None))), STUCK),
    "started beyond the calendar": (case(proof=proof(reading=reading(1e300))), STUCK),
    "started before 1970": (case(proof=proof(reading=reading(-1.0))), STUCK),
    "silenced while we looked": (
        case(proof=proof(), standing=standing(AlertState.SILENCED)),
        (Action.HOLD, Reason.SILENCED),
    ),
    "resolved while we looked": (
        case(proof=proof(), incident=incident(state=IncidentState.CLOSED)),
        (Action.IGNORE, Reason.RESOLVED),
    ),
    "/health says dead and the page stands still": (case(proof=proof(dead=True)), DEAD),
    "/health says dead, the page is gone and the alert says stuck": (
        case(proof=GONE_503),
        CANNOT_VERIFY,
    ),
    "/health says dead, the page is gone and the alert says dead": (
        case(proof=GONE_503, incident=SAYS_DEAD),
        DEAD,
    ),
    "refused, and the alert says dead": (case(proof=REFUSED, incident=SAYS_DEAD), DEAD),
    "refused, and the alert says stuck": (case(proof=REFUSED), CANNOT_VERIFY),
    "dead, but it answered": (
        case(proof=proof(dead=True, request=Request.ANSWERED), incident=SAYS_DEAD),
        (Action.IGNORE, Reason.PROGRESSING),
    ),
    "the alert says dead, and it is only silent": (
        case(proof=proof(), incident=SAYS_DEAD),
        CANNOT_VERIFY,
    ),
    "an attempt broke off, and it is the same process": (
        case(proof=proof(), attempts=(BROKEN_OFF,)),
        STUCK,
    ),
    "an attempt broke off, and it is another process": (
        case(proof=proof(reading=reading(at(-1500).timestamp())), attempts=(BROKEN_OFF,)),
        (Action.ESCALATE, Reason.INTERRUPTED),
    ),
    "an attempt broke off, and no start time is known": (
        case(
            proof=proof(reading=reading(None)),
            attempts=(replace(BROKEN_OFF, before=reading(None)),),
        ),
        (Action.ESCALATE, Reason.INTERRUPTED),
    ),
    "an attempt broke off, and nothing had been read before it": (
        case(proof=proof(), attempts=(replace(BROKEN_OFF, before=None),)),
        (Action.ESCALATE, Reason.INTERRUPTED),
    ),
    "an attempt broke off before it began to act": (
        case(
            proof=proof(reading=reading(None)),
            attempts=(replace(BROKEN_OFF, acting_at=None),),
        ),
        STUCK,
    ),
    "an attempt for another incident broke off": (
        case(
            proof=proof(reading=reading(None)),
            attempts=(replace(BROKEN_OFF, incident_id=2),),
        ),
        STUCK,
    ),
}


@pytest.mark.parametrize(
    ("looked_at", "expected"), WITH_THE_PROOF.values(), ids=list(WITH_THE_PROOF)
)
def test_with_the_proof(looked_at: Case, expected: tuple[Action, Reason]) -> None:
    assert told(decide(looked_at, NOW)) == expected


def test_every_recorded_decision_is_reached_and_no_other() -> None:
    tables = [*BEFORE_THE_PROOF.values(), *WITH_THE_PROOF.values()]
    assert {expected for _, expected in tables} - {VERIFY} == set(RECORDED)


def test_every_reason_stands_in_the_recorded_ones() -> None:
    assert {reason for _, reason in RECORDED} | {Reason.NOTHING_AGAINST_IT} == set(Reason)


@pytest.mark.parametrize(
    ("looked_at", "until"),
    [
        (case(attempts=(attempt(ended_at=at(-799)),)), at(101)),
        (
            case(
                attempts=tuple(attempt(backend="gpu-b", planned_at=at(-600 * i)) for i in range(5))
            ),
            at(-1200 + 3600),
        ),
        (case(standing=NOT_ASKED), at(130)),
        (case(proof=proof(saw=saw(Sight.MOVED))), at(130)),
    ],
    ids=["cool-down's end", "when the fleet has one left", "the next look", "after a sign of life"],
)
def test_a_hold_says_until_when(looked_at: Case, until: datetime) -> None:
    decision = decide(looked_at, NOW)
    assert isinstance(decision, Hold)
    assert decision.until == until


def test_every_decision_has_a_why_with_its_numbers() -> None:
    for looked_at, _ in [*BEFORE_THE_PROOF.values(), *WITH_THE_PROOF.values()]:
        assert decide(looked_at, NOW).why
    why = decide(case(proof=proof()), NOW).why
    assert "31 s" in why
    assert "30 s" in why
