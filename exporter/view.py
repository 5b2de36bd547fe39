"""What the page for people and /api/backends show, in the words of docs/api.md: a public API.

Nothing here reads a clock: ages are made of the moment ``now``, in monotonic seconds.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from exporter.memory import Snapshot, Watched
from exporter.rates import Glance
from fleet.engine import EngineHistory
from fleet.judgement import WAITS_OF_PROOF
from fleet.state import State

RUNBOOK = "https://github.com/vllm-lifeguard/vllm-lifeguard/blob/main/docs/runbook.md"

# The heading of the runbook for each state that has one. It is the name of the state's alert.
HEADINGS: Mapping[State, str] = {
    State.STUCK: "VLLMEngineStuck",
    State.ENGINE_DEAD: "VLLMEngineDead",
    State.DOWN: "VLLMBackendDown",
    State.UNRESPONSIVE: "VLLMBackendUnresponsive",
    State.UNKNOWN: "VLLMBackendUnjudged",
    State.BEHIND_PROXY: "VLLMBackendUnjudged",
    State.NO_METRICS: "VLLMBackendUnjudged",
    State.STARVED: "VLLMEngineStarved",
    State.QUIET: "VLLMEngineQuiet",
    State.RESTARTED: "VLLMBackendRestarted",
}
STALE = "VLLMExporterStale"


class Urgency(StrEnum):
    """How much a backend wants a person: PERSON now, WATCH perhaps soon, NONE not at all."""

    PERSON = "person"
    WATCH = "watch"
    NONE = "none"


# Every state, the one that most wants a person first.
URGENCIES: Mapping[State, Urgency] = {
    State.STUCK: Urgency.PERSON,
    State.ENGINE_DEAD: Urgency.PERSON,
    State.DOWN: Urgency.PERSON,
    State.UNRESPONSIVE: Urgency.PERSON,
    State.UNKNOWN: Urgency.PERSON,
    State.STARVED: Urgency.PERSON,
    State.BEHIND_PROXY: Urgency.PERSON,
    State.NO_METRICS: Urgency.PERSON,
    State.QUIET: Urgency.WATCH,
    State.RESTARTED: Urgency.WATCH,
    State.STARTING: Urgency.WATCH,
    State.PAUSED: Urgency.NONE,
    State.BUSY: Urgency.NONE,
    State.SLEEPING: Urgency.NONE,
    State.IDLE: Urgency.NONE,
    State.PROXY: Urgency.NONE,
}
WORST_FIRST = tuple(URGENCIES)
_RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}
_DIGITS = re.compile(r"(\d+)", re.ASCII)


class LookRow(TypedDict):
    """One look at an engine."""

    age_seconds: float
    step_rate: float | None
    seen: str


class EngineRow(TypedDict):
    """One engine."""

    engine: str
    state: State
    why: str
    step_rate: float | None
    quiet_seconds: float
    longest_quiet_seconds: float
    requests_running: float | None
    requests_waiting: float | None
    looks: list[LookRow]


class BackendRow(TypedDict):
    """One backend."""

    backend: str
    url: str
    state: State
    why: str
    urgency: Urgency
    since: float
    state_age_seconds: float
    read_age_seconds: float
    good_read_age_seconds: float | None
    stale: bool
    wait_seconds: float
    stuck_after_seconds: float
    restarts: int
    runbook_url: str | None
    engines: list[EngineRow]


class QueryError(Exception):
    """A query cannot be answered; one sentence with the parameter and its value."""


@dataclass(frozen=True)
class Query:
    """Which backends are wanted: in one of ``states`` (any, if empty), with ``text`` in them.

    ``text`` is looked for in the name and the URL, whatever the case.
    """

    states: frozenset[State] = frozenset()
    text: str = ""

    def wants(self, row: BackendRow) -> bool:
        """Whether this backend is one of the wanted."""
        text = self.text.casefold()
        of_state = not self.states or row["state"] in self.states
        return of_state and any(text in row[key].casefold() for key in ("backend", "url"))


def query(states: Iterable[str], text: str) -> Query:
    """The query of the parameters ``state`` (any number) and ``q``. Raises QueryError."""
    known = set(State)
    for state in states:
        if state and state not in known:
            raise QueryError(f"state: {state!r} is none of {', '.join(State)}")
    return Query(frozenset(State(state) for state in states if state), text.strip())


def rows(watched: Iterable[Watched], now: float) -> list[BackendRow]:
    """All backends, the one that most wants a person first; among equals by name."""
    return sorted((_row(one, now) for one in watched), key=_order)


def counts(found: Sequence[BackendRow]) -> dict[State, int]:
    """How many backends are in each state that any is in, the worst first."""
    many = Counter(row["state"] for row in found)
    return {state: many[state] for state in WORST_FIRST if many[state]}


def _order(row: BackendRow) -> tuple[bool, int, list[tuple[int, str]]]:
    # gpu-2 comes before gpu-10.
    parts = _DIGITS.split(row["backend"])
    name = [(int(part), "") if part.isdigit() else (0, part) for part in parts]
    return not row["stale"], _RANK[row["state"]], name


def _row(watched: Watched, now: float) -> BackendRow:
    snapshot = watched.snapshot
    history, backend = snapshot.history, snapshot.backend
    state = snapshot.judgement.backend.state
    age = now - snapshot.polled_at
    # A wait holds two polls at least: after one without any, its poll loop is dead or far behind.
    stale = age > backend.wait
    heading = STALE if stale else HEADINGS.get(state)
    return {
        "backend": backend.name,
        "url": backend.url,
        "state": state,
        "why": snapshot.judgement.backend.why,
        "urgency": Urgency.PERSON if stale else URGENCIES[state],
        "since": round(snapshot.since_wall, 3),
        "state_age_seconds": round(now - snapshot.since, 1),
        "read_age_seconds": round(age, 1),
        "good_read_age_seconds": None
        if history.seen_at is None
        else round(now - history.seen_at, 1),
        "stale": stale,
        "wait_seconds": backend.wait,
        "stuck_after_seconds": WAITS_OF_PROOF * backend.wait,
        "restarts": history.restarts,
        "runbook_url": f"{RUNBOOK}#{heading.lower()}" if heading else None,
        "engines": [
            _engine_row(name, engine, snapshot, watched.rates.get(name, ()), now)
            for name, engine in history.engines.items()
        ],
    }


def _engine_row(
    name: str, engine: EngineHistory, snapshot: Snapshot, glances: Sequence[Glance], now: float
) -> EngineRow:
    # What is wrong with the backend as a whole is wrong with each of its engines.
    verdict = snapshot.judgement.engines.get(name, snapshot.judgement.backend)
    return {
        "engine": name,
        "state": verdict.state,
        "why": verdict.why,
        "step_rate": _rounded(glances[-1].step_rate) if glances else None,
        "quiet_seconds": round(engine.quiet.seconds, 1),
        "longest_quiet_seconds": round(engine.longest_quiet, 1),
        "requests_running": engine.reading.running,
        "requests_waiting": engine.reading.waiting,
        "looks": [
            {
                "age_seconds": round(now - glance.at, 1),
                "step_rate": _rounded(glance.step_rate),
                "seen": glance.seen,
            }
            for glance in glances
        ],
    }


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)
