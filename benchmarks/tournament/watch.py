"""One method at a real server: looks when it is due, and what it calls for is only written down."""

import threading
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.tournament.event import HangKind
from benchmarks.tournament.method import Method
from benchmarks.tournament.real import Clock, RealServer


@dataclass(frozen=True)
class Frozen:
    """A hang: of what kind, and since when on the virtual clock."""

    kind: HangKind
    since: float


@dataclass
class Truth:
    """What the referee knows and no method does: what goes on, and whether it hangs."""

    episode: str = ""
    hang: Frozen | None = None


@dataclass
class Tally:
    """What one method did, by episode and by kind of hang.

    ``found``: virtual seconds from the hang to the call; a hang that is not in it was not called.
    ``told``: those for which a person was called instead.
    """

    false: Counter[str] = field(default_factory=Counter)
    found: dict[HangKind, float] = field(default_factory=dict)
    told: set[HangKind] = field(default_factory=set)
    sent_to_busy: int = 0
    sent_to_hung: int = 0

    def missed(self, hangs: tuple[HangKind, ...]) -> int:
        """How many of these it did not call."""
        return sum(kind not in self.found for kind in hangs)


class Watch:
    """A method, the server as it sees it, and its tallies: of its calls and of its alerts alone."""

    def __init__(self, method: Method, url: str, clock: Clock, truth: Truth) -> None:
        self.method = method
        self.calls = Tally()
        self.alerts = Tally()
        self._server = RealServer(url, clock)
        self._clock = clock
        self._truth = truth
        self._was_firing = False

    def run(self, stop: threading.Event) -> None:
        """Look until it is told to stop, or until it has called for a restart in a hang."""
        while not stop.wait(self._clock.real(self.method.due - self._clock.now())):
            self._look()
            hang = self._truth.hang
            if hang is not None and hang.kind in self.calls.found:
                return

    def restarted(self) -> None:
        """Another process serves now."""
        self.method.restarted(self._clock.now())
        self._was_firing = False

    def close(self) -> None:
        """Hang up whatever is open."""
        self._server.close()

    def _look(self) -> None:
        # What was so when it began to look counts.
        hang, episode = self._truth.hang, self._truth.episode
        sent, now = self._server.sent_to_pending, self._clock.now()
        calls = self.method.look(self._server, now)
        told = self.method.told_a_person()
        self._count_sent(self._server.sent_to_pending - sent, hang)
        self._follow_alert(hang, episode, now)
        if hang is None:
            if calls:
                self.calls.false[episode] += 1
                self.method.restarted(self._clock.now())
        elif calls or told:
            self.calls.found[hang.kind] = self._clock.now() - hang.since
            if not calls:
                self.calls.told.add(hang.kind)

    def _count_sent(self, number: int, hang: Frozen | None) -> None:
        for tally in (self.calls, self.alerts):
            if hang is None:
                tally.sent_to_busy += number
            else:
                tally.sent_to_hung += number

    def _follow_alert(self, hang: Frozen | None, episode: str, now: float) -> None:
        firing = self.method.firing
        if firing and hang is None and not self._was_firing:
            self.alerts.false[episode] += 1
        if firing and hang is not None:
            self.alerts.found.setdefault(hang.kind, now - hang.since)
        self._was_firing = firing
