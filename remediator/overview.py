"""How each backend stands with the remediator, as the page, the API and ``status`` show it.

The names are public API, in the words of docs/remediator-api.md.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypedDict

from fleet.backend import Backend, Kind
from fleet.settings import Mode, RemediatorSettings
from fleet.way import Command, Docker, Kubernetes, Systemd, Way
from remediator.backoff import patience
from remediator.case import Case
from remediator.decision import Action, Hold, Restart
from remediator.incident import Attempt, Decided, Incident, Origin
from remediator.limits import cooling_down, recent
from remediator.moment import clock
from remediator.policy import examine
from remediator.record import HoldBack
from remediator.rows import QuestionRow, Row, attempt_row, decision_row, hold_row, question_row
from remediator.rows import incident_row as row_of

_DIGITS = re.compile(r"(\d+)", re.ASCII)


class Situation(StrEnum):
    """How a backend stands with the remediator.

    GIVEN_UP: hands off until a person says ``reset``. ESCALATED: an open incident is a person's
    matter. RESTARTING: an attempt is under way. WAITING: an open incident for which something
    stands against a restart now, or which is not decided yet. WATCHED: it would have been
    restarted, had the mode been ``act``. HELD: somebody holds it. COOLING_DOWN: restarted not long
    ago. READY: a proven hang would be acted on. NOT_RESTARTED: fleet.yml does not say how.
    """

    GIVEN_UP = "given_up"
    ESCALATED = "escalated"
    RESTARTING = "restarting"
    WAITING = "waiting"
    WATCHED = "watched"
    HELD = "held"
    COOLING_DOWN = "cooling_down"
    READY = "ready"
    NOT_RESTARTED = "not_restarted"


class Urgency(StrEnum):
    """How much a backend wants a person: PERSON now, WATCH perhaps soon, NONE not at all."""

    PERSON = "person"
    WATCH = "watch"
    NONE = "none"


# Every situation, the one that most wants a person first.
URGENCIES: Mapping[Situation, Urgency] = {
    Situation.GIVEN_UP: Urgency.PERSON,
    Situation.ESCALATED: Urgency.PERSON,
    Situation.RESTARTING: Urgency.WATCH,
    Situation.WAITING: Urgency.WATCH,
    Situation.WATCHED: Urgency.WATCH,
    Situation.HELD: Urgency.WATCH,
    Situation.COOLING_DOWN: Urgency.NONE,
    Situation.READY: Urgency.NONE,
    Situation.NOT_RESTARTED: Urgency.NONE,
}
_RANK = {situation: rank for rank, situation in enumerate(URGENCIES)}


@dataclass(frozen=True)
class Known:
    """What is remembered of a backend.

    ``case`` is that of a restart which a person would ask for now. ``incidents`` are the open ones,
    ``decided`` is the newest line of its journal.
    """

    backend: Backend
    case: Case
    incidents: tuple[Incident, ...]
    decided: Decided | None


class BackendRow(TypedDict):
    """One backend."""

    backend: str
    url: str
    situation: Situation
    urgency: Urgency
    why: str
    incident: Row | None
    last_decision: Row | None
    holds: list[Row]
    given_up_at: str | None
    attempt: Row | None
    restarts: int
    restarts_left: int
    window_seconds: float
    unhelpful_restarts: int
    cool_down_seconds: float
    cool_down_until: str | None
    load_seconds: float | None
    load_time_seconds: float
    patience_seconds: float
    last_restart_at: str | None
    last_foreign_restart_at: str | None
    restart: str | None
    gateways: int
    against_restart: QuestionRow | None


class FleetRow(TypedDict):
    """All of it."""

    mode: Mode
    as_of: str
    trouble: str | None
    restarts: int
    restarts_left: int
    window_seconds: float
    holds: list[Row]
    backends: list[BackendRow]


def fleet_row(
    known: Sequence[Known],
    holds: Iterable[HoldBack],
    limits: RemediatorSettings,
    trouble: str | None,
    now: datetime,
) -> FleetRow:
    """The fleet at ``now``, the backend that most wants a person first, among equals by name.

    ``trouble`` is why the remediator itself cannot be relied on, or None.
    """
    counted = {attempt.id: attempt for one in known for attempt in one.case.counted}
    used = len(recent(counted.values(), limits.fleet_window, now))
    return {
        "mode": limits.mode,
        "as_of": clock(now),
        "trouble": trouble,
        "restarts": used,
        "restarts_left": max(0, limits.fleet_restarts - used),
        "window_seconds": limits.fleet_window,
        "holds": [hold_row(hold) for hold in holds],
        "backends": sorted((backend_row(one, now) for one in known), key=_order),
    }


def backend_row(known: Known, now: datetime) -> BackendRow:
    """One backend at ``now``."""
    backend, case = known.backend, known.case
    limits, record = case.settings, case.record
    incident = _foremost(known.incidents)
    cooling = cooling_down(_as_alerted(known), now)
    under_way = _under_way(known)
    situation, why = _busy(known, incident, under_way) or _at_rest(known, cooling)
    used = len(recent(case.of_backend, limits.backend_window, now))
    restarts = [a.acting_at for a in case.attempts if a.backend == backend.name and a.acting_at]
    return {
        "backend": backend.name,
        "url": backend.url,
        "situation": situation,
        "urgency": URGENCIES[situation],
        "why": why,
        "incident": None if incident is None else row_of(incident),
        "last_decision": None if known.decided is None else decision_row(known.decided),
        "holds": [hold_row(hold) for hold in case.holds],
        "given_up_at": None if record.given_up_at is None else clock(record.given_up_at),
        "attempt": None if under_way is None else attempt_row(under_way),
        "restarts": used,
        "restarts_left": max(0, limits.backend_restarts - used),
        "window_seconds": limits.backend_window,
        "unhelpful_restarts": _unhelpful(known, now),
        "cool_down_seconds": _as_alerted(known).cool_down.total_seconds(),
        "cool_down_until": clock(cooling.until) if isinstance(cooling, Hold) else None,
        "load_seconds": record.longest_load,
        "load_time_seconds": backend.load_time,
        "patience_seconds": patience(backend.load_time, record.longest_load),
        "last_restart_at": clock(max(restarts)) if restarts else None,
        "last_foreign_restart_at": clock(record.last_foreign) if record.last_foreign else None,
        "restart": None if backend.restart is None else way_in_words(backend.restart.way),
        "gateways": len(backend.gateways),
        "against_restart": _against(case, now),
    }


def way_in_words(way: Way) -> str:
    """How a backend is restarted; what else stands in a command is nobody's business here."""
    match way:
        case Command(words):
            return f"the command {words[0]}"
        case Systemd(unit, user):
            return f"the {'user' if user else 'systemd'} unit {unit}"
        case Docker(container):
            return f"the container {container}"
        case Kubernetes():
            what = way.workload or (f"pod {way.pod}" if way.pod else f"the pod of {way.selector}")
            return f"{what} in {way.namespace}"


def _busy(
    known: Known, incident: Incident | None, under_way: Attempt | None
) -> tuple[Situation, str] | None:
    """How a backend stands that something is, was or will be done about; None for any other."""
    record = known.case.record
    if record.given_up_at is not None:
        return Situation.GIVEN_UP, record.given_up_why
    if under_way is not None and under_way.mode is Mode.SHADOW:
        return Situation.WATCHED, "would have been restarted; watched for whether it comes back"
    if under_way is not None:
        said = under_way.why or under_way.drained
        colon = f": {said}" if said else ""
        return Situation.RESTARTING, f"attempt {under_way.id} is {under_way.state}{colon}"
    if incident is None:
        return None
    if incident.action is Action.ESCALATE:
        return Situation.ESCALATED, incident.why
    return Situation.WAITING, incident.why or "an incident is not decided about yet"


def _at_rest(known: Known, cooling: object) -> tuple[Situation, str]:
    backend, holds = known.backend, known.case.holds
    if holds:
        last = max(holds, key=lambda hold: hold.until)
        return Situation.HELD, f"{last.held_by} holds it until {clock(last.until)}: {last.why}"
    if backend.kind is Kind.PROXY:
        return Situation.NOT_RESTARTED, "a proxy, which is never restarted"
    if backend.restart is None:
        return Situation.NOT_RESTARTED, "fleet.yml does not say how it is restarted"
    if isinstance(cooling, Hold):
        return Situation.COOLING_DOWN, cooling.why
    return Situation.READY, "no open incident"


def _against(case: Case, now: datetime) -> QuestionRow | None:
    """The question that stands against a restart which a person asks for now."""
    examined = examine(case, now)
    if isinstance(examined.decision, Restart):
        return None
    return question_row(examined.answers[-1])


def _as_alerted(known: Known) -> Case:
    """The case of the open incident of an alert, if there is one: its cool-down may be longer."""
    of_alerts = [i for i in known.incidents if i.origin is Origin.ALERT]
    if not of_alerts:
        return known.case
    return replace(known.case, incident=min(of_alerts, key=lambda i: i.starts_at))


def _unhelpful(known: Known, now: datetime) -> int:
    """How many of its last restarts did not help; one that has lasted so far is none of them."""
    case = _as_alerted(known)
    if case.incident.origin is Origin.PERSON:
        later = now + timedelta(seconds=case.settings.helped_after)
        case = replace(case, incident=replace(case.incident, starts_at=later))
    return case.unhelpful


def _under_way(known: Known) -> Attempt | None:
    name = known.backend.name
    return next((a for a in known.case.attempts if a.backend == name and a.under_way), None)


def _foremost(incidents: Sequence[Incident]) -> Incident | None:
    """The one that most wants a person, among equals the oldest."""
    return min(incidents, key=lambda i: (i.action is not Action.ESCALATE, i.id), default=None)


def _order(row: BackendRow) -> tuple[int, list[tuple[int, str]]]:
    # gpu-2 comes before gpu-10.
    parts = _DIGITS.split(row["backend"])
    name = [(int(part), "") if part.isdigit() else (0, part) for part in parts]
    return _RANK[row["situation"]], name
