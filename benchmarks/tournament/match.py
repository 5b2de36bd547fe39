"""One method on one server: the referee knows the truth and counts."""

from collections.abc import Callable
from typing import Protocol

from benchmarks.tournament.event import On, Spec
from benchmarks.tournament.method import Method
from benchmarks.tournament.recorded import RecordedServer
from benchmarks.tournament.score import Mistake, Score
from benchmarks.tournament.seen import Seen
from benchmarks.tournament.server import Hang, Server
from benchmarks.tournament.simulated import simulated

# A hang that has not been called after this long is missed, and an operator restarts the server.
MISSED_AFTER = 1800.0
HOUR = 3600.0


class Refereed(Seen, Protocol):
    """A server and the truth about it."""

    hang: Hang | None
    up_at: float
    lost: int
    sent_to_busy: int
    sent_to_unseen: int
    sent_to_hung: int
    over: bool

    def catch_up(self, now: float) -> None:
        """Let everything happen that is due by ``now``."""

    def restart(self, now: float) -> None:
        """Stop the process and start another."""


def server_of(spec: Spec) -> Refereed:
    """The server that a spec describes, at the beginning of its season."""
    match spec.on:
        case On.RECORDING:
            return RecordedServer(spec)
        case On.DEMO:
            return Server(spec, simulated)
        case On.LEAPS:
            return Server(spec)


def play(spec: Spec, make: Callable[[], Method]) -> tuple[Score, Score]:
    """Let one method watch one server for its season: its restarts, and its alerts by themselves.

    The second is what the method said before it looked again, where it does that.
    """
    return Match(spec, make()).played()


class Match:
    """A season of one method at one server."""

    def __init__(self, spec: Spec, method: Method) -> None:
        self._spec = spec
        self._method = method
        self._server = server_of(spec)
        self._score = Score()
        self._alerts = Score()
        self._was_firing = False
        self._alerted: Hang | None = None
        self._hung = 0.0

    def played(self) -> tuple[Score, Score]:
        """Play it to its end."""
        method, server = self._method, self._server
        end = self._spec.hours * HOUR
        while method.due < end and not server.over:
            now = method.due
            server.catch_up(now)
            if server.hang is not None and now - server.hang.since > MISSED_AFTER:
                self._miss(server.hang, now)
            calls = method.look(server, now)
            self._follow_alert(now)
            told = method.told_a_person()
            if calls:
                self._called(now)
            elif told and server.hang is not None:
                self._person_came(server.hang, now)
            if method.due <= now:
                raise AssertionError(f"{method.name} stands still at {now}")
        lasted = now if server.over else end
        for score in (self._score, self._alerts):
            score.healthy_seconds = lasted - self._hung
            score.sent_to_busy, score.sent_to_hung = server.sent_to_busy, server.sent_to_hung
            score.sent_to_unseen = server.sent_to_unseen
        return self._score, self._alerts

    def _called(self, now: float) -> None:
        hang, lost = self._server.hang, self._server.lost
        self._server.restart(now)
        self._method.restarted(self._server.up_at)
        if hang is None:
            self._score.false[self._spec.workload] += 1
            self._score.killed += self._server.lost - lost
            self._score.mistakes.append(self._mistake(now, "false restart"))
        else:
            self._score.found(hang.kind, now - hang.since)
            self._hung += now - hang.since

    def _person_came(self, hang: Hang, now: float) -> None:
        """A person was called, finds the server hung and restarts it."""
        for score in self._not_found_yet(hang):
            score.found(hang.kind, now - hang.since)
            score.told += 1
        self._end(hang, now)

    def _miss(self, hang: Hang, now: float) -> None:
        for score in self._not_found_yet(hang):
            score.missed_one(hang.kind)
            score.mistakes.append(self._mistake(hang.since, f"missed: {hang.kind}"))
        self._end(hang, now)

    def _not_found_yet(self, hang: Hang) -> list[Score]:
        return [self._score] if self._alerted is hang else [self._score, self._alerts]

    def _end(self, hang: Hang, now: float) -> None:
        self._hung += now - hang.since
        self._server.restart(now)
        self._method.restarted(self._server.up_at)

    def _follow_alert(self, now: float) -> None:
        firing, hang = self._method.firing, self._server.hang
        if firing and hang is None and not self._was_firing:
            self._alerts.false[self._spec.workload] += 1
            self._alerts.mistakes.append(self._mistake(now, "false alert"))
        if firing and hang is not None and self._alerted is not hang:
            self._alerted = hang
            self._alerts.found(hang.kind, now - hang.since)
        self._was_firing = firing

    def _mistake(self, at: float, what: str) -> Mistake:
        return Mistake(self._method.name, self._spec.name, self._spec.workload, round(at), what)
