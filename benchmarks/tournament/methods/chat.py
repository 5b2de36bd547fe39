"""By a request of its own, queued behind everybody's."""

from benchmarks.tournament.seen import Seen, Ticket

EVERY, TIMEOUT, MISSES = 300.0, 45.0, 5
PROMPT, OUTPUT = 30, 16


class ChatWatchdog:
    """The watchdog of the incident.

    A real chat request every 5 minutes; no answer within 45 s, or an error, is a miss; five misses
    in a row restart. The request is small: 30 prompt tokens, 16 to come. After its own restart it
    waits one period.
    """

    name = "chat request"
    firing = False

    def __init__(self) -> None:
        self.due = EVERY
        self._misses = 0
        self._open: Ticket | None = None
        self._began = 0.0

    def look(self, server: Seen, now: float) -> bool:
        """Send, or see what became of what was sent."""
        if self._open is None:
            sent = server.send(now, None, PROMPT, OUTPUT)
            if isinstance(sent, Ticket):
                self._open, self._began, self.due = sent, now, now + TIMEOUT
                return False
            return self._over(now, answered=False)
        answered = server.answered_at(self._open, now) is not None
        server.abandon(self._open, now)
        return self._over(self._began, answered=answered)

    def _over(self, began: float, *, answered: bool) -> bool:
        self._open = None
        self.due = began + EVERY
        self._misses = 0 if answered else self._misses + 1
        return self._misses >= MISSES

    def restarted(self, serves_at: float) -> None:
        """Start counting afresh."""
        self._misses, self._open, self.due = 0, None, serves_at + EVERY

    def told_a_person(self) -> bool:
        """Never."""
        return False
