"""The remediator's metrics: names, labels, help and where each value comes from. A public API.

Nothing here reads a clock, a socket or the database: families are made of one Scrape.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleet import __version__
from fleet.family import COUNTER, GAUGE, Family, Value
from fleet.settings import Mode
from remediator.decision import RECORDED, Action, Reason
from remediator.incident import ENDS, Attempt, AttemptState, Incident, ShadowOutcome
from remediator.journal import Received
from remediator.record import EVERY_BACKEND, HoldBack


@dataclass(frozen=True)
class Remembered:
    """What the database says: it survives the program.

    ``under_way``: the attempts that have not ended, of either mode. ``attempts`` counts those of
    the mode now set, by backend and state. ``restarts`` has, for each
    backend, how many restarts were begun and when the last was; ``loads`` the longest load of its
    last ones in seconds. ``holds`` are those in force, ``foreign_restarts`` counts those that
    somebody else made.
    """

    open_incidents: Sequence[Incident]
    under_way: Sequence[Attempt]
    attempts: Mapping[tuple[str, AttemptState], int]
    restarts: Mapping[str, tuple[int, datetime]]
    shadow_outcomes: Mapping[ShadowOutcome, int]
    foreign_restarts: Mapping[str, int]
    given_up: frozenset[str]
    loads: Mapping[str, float | None]
    holds: Sequence[HoldBack]


@dataclass(frozen=True)
class Scrape:
    """What one scrape is made of; ``remembered`` is None where the database could not be read.

    ``truncated`` alerts were left out of notifications.
    """

    mode: Mode
    backends: Sequence[str]
    notifications: Mapping[Received, int]
    decisions: Mapping[tuple[Action, Reason], int]
    remembered: Remembered | None
    truncated: int = 0


def _remembered(
    values: Callable[[Scrape, Remembered], Iterable[Value]],
) -> Callable[[Scrape], Iterable[Value]]:
    """Values of the database; no series at all while it cannot be read."""
    return lambda scrape: () if scrape.remembered is None else values(scrape, scrape.remembered)


def _attempts(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    for backend in scrape.backends:
        for end in ENDS:
            yield (backend, end), remembered.attempts.get((backend, end), 0)


def _restarts(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    for backend in scrape.backends:
        count = remembered.restarts[backend][0] if backend in remembered.restarts else 0
        yield (backend,), count


def _foreign_restarts(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    for backend in scrape.backends:
        yield (backend,), remembered.foreign_restarts.get(backend, 0)


def _last_restarts(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    for backend, (_, last) in remembered.restarts.items():
        if backend in scrape.backends:
            yield (backend,), last.timestamp()


def _restarts_under_way(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    """From before the restart command is begun to the attempt's end; never in mode shadow."""
    restarting = {
        attempt.backend
        for attempt in remembered.under_way
        if attempt.mode is Mode.ACT and attempt.acting_at is not None
    }
    for backend in scrape.backends:
        yield (backend,), float(backend in restarting)


def _holds(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    for backend in scrape.backends:
        count = sum(hold.backend in (backend, EVERY_BACKEND) for hold in remembered.holds)
        yield (backend,), count


def _loads(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    for backend in scrape.backends:
        load = remembered.loads.get(backend)
        if load is not None:
            yield (backend,), load


def _storm(_: Scrape, remembered: Remembered) -> Iterator[Value]:
    reasons = {incident.reason for incident in remembered.open_incidents}
    yield (), float(Reason.TOO_MANY_UNHEALTHY in reasons)


def _open(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
    for backend in scrape.backends:
        count = sum(incident.backend == backend for incident in remembered.open_incidents)
        yield (backend,), count


def _reasons(action: Action) -> Callable[[Scrape, Remembered], Iterable[Value]]:
    """1 for each reason for which an open incident is where ``action`` put it."""

    def values(scrape: Scrape, remembered: Remembered) -> Iterator[Value]:
        found = {
            (incident.backend, incident.reason)
            for incident in remembered.open_incidents
            # One that is being restarted is not held back.
            if incident.action is action and incident.reason is not Reason.UNDER_WAY
        }
        for backend, reason in sorted(found, key=str):
            if backend in scrape.backends:
                yield (backend, str(reason)), 1.0

    return values


FAMILIES: tuple[Family[Scrape], ...] = (
    Family(
        "remediator_mode",
        GAUGE,
        "1 for the mode that is set, 0 for the other; in shadow nothing is restarted.",
        ("mode",),
        lambda s: [((mode,), float(mode is s.mode)) for mode in Mode],
    ),
    Family(
        "remediator_notifications_total",
        COUNTER,
        "Notifications of Alertmanager by what became of them.",
        ("result",),
        lambda s: [((result,), s.notifications.get(result, 0)) for result in Received],
    ),
    Family(
        "remediator_truncated_alerts_total",
        COUNTER,
        "Alerts that Alertmanager left out of its notifications (max_alerts).",
        (),
        lambda s: [((), s.truncated)],
    ),
    Family(
        "remediator_decisions_total",
        COUNTER,
        "Decisions about incidents, counted when they differ from the incident's last one.",
        ("action", "reason"),
        lambda s: [(pair, s.decisions.get(pair, 0)) for pair in RECORDED],
    ),
    Family(
        "remediator_attempts_total",
        COUNTER,
        "Attempts that ended, by how; in shadow mode those that were not made.",
        ("backend", "outcome"),
        _remembered(_attempts),
    ),
    Family(
        "remediator_restarts_total",
        COUNTER,
        "Restarts that were begun.",
        ("backend",),
        _remembered(_restarts),
    ),
    Family(
        "remediator_foreign_restarts_total",
        COUNTER,
        "Restarts that somebody else made.",
        ("backend",),
        _remembered(_foreign_restarts),
    ),
    Family(
        "remediator_attempts_in_progress",
        GAUGE,
        "Attempts that have not ended.",
        (),
        _remembered(lambda _, r: [((), len(r.under_way))]),
    ),
    Family(
        "remediator_restart_under_way",
        GAUGE,
        "1 from the beginning of a restart until the backend answers again or is given up.",
        ("backend",),
        _remembered(_restarts_under_way),
    ),
    Family(
        "remediator_incidents_open",
        GAUGE,
        "Incidents whose alert fires and that are decided about.",
        ("backend",),
        _remembered(_open),
    ),
    Family(
        "remediator_held",
        GAUGE,
        "1 while an open incident is held back for this reason; absent otherwise.",
        ("backend", "reason"),
        _remembered(_reasons(Action.HOLD)),
    ),
    Family(
        "remediator_escalated",
        GAUGE,
        "1 while an open incident is left to a person for this reason; absent otherwise.",
        ("backend", "reason"),
        _remembered(_reasons(Action.ESCALATE)),
    ),
    Family(
        "remediator_storm",
        GAUGE,
        "1 while restarts are held because too many backends are in trouble at once.",
        (),
        _remembered(_storm),
    ),
    Family(
        "remediator_holds",
        GAUGE,
        "Holds in force, by people and batch jobs; one of the whole fleet counts for each.",
        ("backend",),
        _remembered(_holds),
    ),
    Family(
        "remediator_given_up",
        GAUGE,
        "1 for a backend that is left to a person until they say reset.",
        ("backend",),
        _remembered(lambda s, r: [((name,), float(name in r.given_up)) for name in s.backends]),
    ),
    Family(
        "remediator_load_seconds",
        GAUGE,
        "The longest that one of its last restarts took until the first answer; absent before one.",
        ("backend",),
        _remembered(_loads),
    ),
    Family(
        "remediator_shadow_outcomes_total",
        COUNTER,
        "What became of the servers that would have been restarted, had the mode been act.",
        ("outcome",),
        _remembered(lambda _, r: [((o,), r.shadow_outcomes.get(o, 0)) for o in ShadowOutcome]),
    ),
    Family(
        "remediator_last_restart_timestamp_seconds",
        GAUGE,
        "When the last restart was begun, in Unix seconds; absent where none was.",
        ("backend",),
        _remembered(_last_restarts),
    ),
    Family(
        "remediator_build_info",
        GAUGE,
        "1, with the remediator's version.",
        ("version",),
        lambda _: [((__version__,), 1.0)],
    ),
)

NAMES: Mapping[str, tuple[str, ...]] = {family.name: family.labels for family in FAMILIES}
