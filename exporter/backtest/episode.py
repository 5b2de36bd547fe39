"""One would-be restart: a hang that was proven by the exporter's own judgement, and its end."""

from dataclasses import dataclass
from enum import StrEnum


class End(StrEnum):
    """How a proven hang ended, as far as the series tell.

    CAME_BACK: the same process moved again, so the restart would have been a mistake, or at least
    not needed. RESTARTED: another process answered. STILL_HUNG: nothing has moved up to the end of
    what was asked for. DATA_ENDED: the target's series end before that.
    """

    CAME_BACK = "came_back"
    RESTARTED = "restarted"
    STILL_HUNG = "still_hung"
    DATA_ENDED = "data_ended"


@dataclass(frozen=True)
class Episode:
    """One engine's hang. Times are Unix seconds.

    ``proven_at``: the scrape at which two waits were full, with ``quiet`` seconds counted and the
    sentence ``why``. ``silent_since``: the scrape that last showed a move. ``ended_at``: the first
    scrape that showed the end, or the last good one there is. ``how``: why it is another process.
    """

    engine: str
    silent_since: float
    proven_at: float
    quiet: float
    why: str
    end: End = End.STILL_HUNG
    ended_at: float = 0.0
    how: str = ""

    @property
    def silence(self) -> float:
        """Seconds from the last move seen to the end."""
        return self.ended_at - self.silent_since

    @property
    def after_proof(self) -> float:
        """Seconds from the proof to the end."""
        return self.ended_at - self.proven_at


@dataclass(frozen=True, order=True)
class Healed:
    """A silence with work pending that ended by itself: its length, and when it ended.

    Its length is known to ``interval``, the scrape interval at that time; all are in seconds.
    """

    seconds: float
    interval: float
    ended_at: float
    engine: str
