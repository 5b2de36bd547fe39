"""Ours: the exporter's own code and the rule, folded over the virtual clock.

The one place of the tournament that knows how the poller puts these together
(``exporter/poller.py``): read, remember, ask /health where nothing moves, ask an idle engine,
judge.
"""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

from benchmarks.tournament.seen import FIRST_START, QUICK, Seen, Ticket
from exporter.asking import engines_to_ask, past_proof
from fleet.answer import Answer, Result
from fleet.backend import Backend, Kind
from fleet.fetch import ENGINE_IS_DEAD, Failure, Trouble
from fleet.history import History, Look, after, asking, heard, told_of_pause
from fleet.judgement import WAITS_OF_PROOF, WAITS_OF_STARVATION, Judgement, judge
from fleet.reading import EngineReading, Reading
from fleet.schema import DefaultsSection, ExporterSection, RemediatorSection
from fleet.state import State
from remediator import proof

EXPORTER = ExporterSection()
BACKEND = Backend(
    name="server",
    url="http://127.0.0.1:8000",
    kind=Kind.VLLM,
    wait=DefaultsSection().wait,
    load_time=DefaultsSection().load_time,
    warm_up=DefaultsSection().warm_up,
)
PATIENCE = past_proof(BACKEND)
# `for` of VLLMEngineDead in rules/alerts.yml.
DEAD_FOR = 90.0
CONFIRM_FOR: float = RemediatorSection.model_fields["confirm_for"].default
ANSWER_WITHIN: float = RemediatorSection.model_fields["answer_within"].default
COOL_DOWN: float = RemediatorSection.model_fields["cool_down"].default
# When an alert calls a person: rules/alerts.yml, rules/alertmanager.yml.
STUCK_FOR_A_PERSON = 600.0
UNJUDGED_FOR = 900.0
UNJUDGED = (State.UNKNOWN, State.BEHIND_PROXY, State.NO_METRICS)

Sees = Callable[[EngineReading], EngineReading]


def read(server: Seen, now: float, sees: Sees | None) -> Reading | Failure:
    """The page, without what a sabotaged method does not see of each engine."""
    result = server.metrics(now, EXPORTER.timeout)
    if sees is None or isinstance(result, Failure):
        return result
    engines = {name: sees(engine) for name, engine in result.engines.items()}
    return replace(result, engines=MappingProxyType(engines))


class LifeguardAlert:
    """``VLLMEngineStuck`` and ``VLLMEngineDead``, taken as restarts.

    The exporter with default settings (interval 15 s, wait 90 s, a short request to an idle engine
    at most every 5 minutes) and the rules: quiet seconds of two waits, or /health 503 for 90 s.
    Without what follows on an alert: nothing looks again before the restart.
    """

    name = "vllm-lifeguard, the alert alone"

    def __init__(self, *, sees: Sees | None = None) -> None:
        """``sees`` takes away from each engine's reading what a sabotaged method does not see."""
        self.due = EXPORTER.interval
        self.history = History()
        self._sees = sees
        self._open: dict[str, Ticket] = {}
        self._person = False
        self._since: dict[str, float] = {}
        self.firing = False

    def look(self, server: Seen, now: float) -> bool:
        """One poll, and what the rules make of it."""
        self.due = now + EXPORTER.interval
        self._hear(server, now)
        self._read(server, now)
        if self._nothing_moves():
            failure = server.health(now + QUICK, EXPORTER.timeout)
            dead = failure is not None and failure.status == ENGINE_IS_DEAD
            self.history = replace(self.history, dead=dead)
            if self.history.failure is None and not dead:
                paused = server.is_paused(now + QUICK)
                self.history = told_of_pause(self.history, paused=paused, at=now + QUICK)
        self._ask(server, now + QUICK)
        self.firing = self._fires(judge(self.history, BACKEND), now)
        return self.firing

    def restarted(self, serves_at: float) -> None:
        """Others made it: the exporter just goes on."""
        del serves_at

    def told_a_person(self) -> bool:
        """Whether an alert called a person.

        A starved engine, a stuck one for ten minutes, one that cannot be judged for fifteen.
        """
        told, self._person = self._person, False
        return told

    def _read(self, server: Seen, now: float) -> None:
        result = read(server, now, self._sees)
        late = isinstance(result, Failure) and result.kind is Trouble.TIMEOUT
        look = Look(now, now + (EXPORTER.timeout if late else QUICK), result)
        self.history = after(
            self.history, look, interval=EXPORTER.interval, warm_up=BACKEND.warm_up
        )

    def _nothing_moves(self) -> bool:
        if self.history.failure is not None:
            return self.history.failure.kind is Trouble.HTTP_ERROR
        return not self.history.moved

    def _hear(self, server: Seen, now: float) -> None:
        for name, ticket in list(self._open.items()):
            answered = server.answered_at(ticket, now)
            asked = self.history.engines.get(name)
            sent = asked.last_asked if asked and asked.last_asked is not None else now
            if answered is not None:
                answer, at = Answer(Result.ANSWERED, answered - sent, "answered"), answered
            elif ticket.error_at is not None:
                answer, at = Answer(Result.ERROR, 0.0, "it broke off"), now
            elif now - sent >= PATIENCE:
                answer, at = Answer(Result.UNANSWERED, PATIENCE, "not answered"), now
                server.abandon(ticket, now)
            else:
                continue
            del self._open[name]
            self.history = heard(self.history, name, answer, at)

    def _ask(self, server: Seen, now: float) -> None:
        for name in engines_to_ask(self.history, BACKEND, now, EXPORTER.answer_every):
            if name in self._open:
                continue
            self.history = asking(self.history, name, now)
            several = len(self.history.engines) > 1
            sent = server.send(now, name if several else None, 1, 1)
            if isinstance(sent, Ticket):
                self._open[name] = sent
            else:
                error = Answer(Result.ERROR, 0.0, sent.why)
                self.history = heard(self.history, name, error, now)

    def _fires(self, judgement: Judgement, now: float) -> bool:
        state = judgement.backend.state
        engines = self.history.engines.values() if self.history.failure is None else ()
        dead = self._lasts("dead", now, holds=state is State.ENGINE_DEAD) >= DEAD_FOR
        quiet = any(each.quiet.seconds >= WAITS_OF_PROOF * BACKEND.wait for each in engines)
        starved = any(
            each.starved.seconds >= WAITS_OF_STARVATION * BACKEND.wait for each in engines
        )
        stuck = self._lasts("stuck", now, holds=dead or quiet) >= STUCK_FOR_A_PERSON
        unjudged = self._lasts("unjudged", now, holds=state in UNJUDGED) >= UNJUDGED_FOR
        self._person = (starved and not quiet) or stuck or unjudged
        return dead or quiet

    def _lasts(self, what: str, now: float, *, holds: bool) -> float:
        """For how many seconds it has held."""
        if not holds:
            self._since.pop(what, None)
            return -1.0
        return now - self._since.setdefault(what, now)


class Lifeguard:
    """The alert, and the look that the remediator takes for itself before it restarts anything.

    Reads the page again over 15 s, asks /is_paused, and sends the short request and waits 30 s for
    it (``remediator/verify.py``); a sign of life, a pause, an answer or an error, and there is no
    restart. Leaves a process alone that is younger than the cool-down of 15 minutes.
    """

    name = "vllm-lifeguard"

    def __init__(self, *, sees: Sees | None = None) -> None:
        self._alert = LifeguardAlert(sees=sees)
        self._sees = sees
        self._restarted_at: float | None = None
        self._held_until = 0.0
        self._first: Reading | None = None
        self._since = 0.0
        self._ticket: Ticket | None = None
        self.due = self._alert.due

    @property
    def firing(self) -> bool:
        """Whether the alert fires, whatever comes of it."""
        return self._alert.firing

    def look(self, server: Seen, now: float) -> bool:
        """Poll; with an alert, look once more at the server itself."""
        self.due = self._alert.due
        if now < self._alert.due:
            return self._prove(server, now)
        fires = self._alert.look(server, now)
        self.due = self._alert.due
        if self._ticket is not None:
            # Its own request, in a queue that still shows who joins it, may have ended the alert.
            return self._prove(server, now)
        if not fires:
            self._give_up(server, now)
            return False
        if self._alert.history.dead:
            return True
        if self._first is None and now >= self._held_until:
            reading = read(server, now, self._sees)
            if isinstance(reading, Reading) and not self._is_young(reading, now):
                self._first, self._since = reading, now
                self.due = now + CONFIRM_FOR / 3
        elif self._first is not None:
            return self._prove(server, now)
        return False

    def restarted(self, serves_at: float) -> None:
        """Remember when; the exporter goes on."""
        self._restarted_at = serves_at
        self._first = self._ticket = None

    def told_a_person(self) -> bool:
        """As the exporter's alerts do."""
        return self._alert.told_a_person()

    def _prove(self, server: Seen, now: float) -> bool:
        if self._first is None:
            return False
        reading = read(server, now, self._sees)
        if isinstance(reading, Failure) or self._moved(self._first, reading):
            self._give_up(server, now)
            return False
        if self._ticket is None:
            if server.is_paused(now):
                self._give_up(server, now)
                return False
            sent = server.send(now, self._rank(reading), 1, 1)
            if isinstance(sent, Failure):
                self._give_up(server, now)
                return False
            self._ticket, self._since = sent, now
        if server.answered_at(self._ticket, now) is not None:
            self._give_up(server, now)
            return False
        silent = now - self._since >= ANSWER_WITHIN
        self.due = min(self._alert.due, self._since + ANSWER_WITHIN if not silent else now + 5.0)
        return silent

    def _give_up(self, server: Seen, now: float) -> None:
        if self._ticket is not None:
            server.abandon(self._ticket, now)
        if self._first is not None:
            self._held_until = now + 30.0
        self._first = self._ticket = None

    def _moved(self, first: Reading, later: Reading) -> bool:
        looks = (
            proof.Look(first, proof.Health.OK),
            proof.Look(later, proof.Health.OK, asked=self._ticket is not None),
        )
        return proof.saw(looks, self._engine()).sight is not proof.Sight.STILL

    def _engine(self) -> str | None:
        engines = self._alert.history.engines
        return max(engines, key=lambda name: engines[name].quiet.seconds, default=None)

    def _rank(self, reading: Reading) -> str | None:
        return self._engine() if len(reading.engines) > 1 else None

    def _is_young(self, reading: Reading, now: float) -> bool:
        started = reading.start_time
        at = self._restarted_at if started is None else started - FIRST_START
        return at is not None and now - at < COOL_DOWN
