"""What a direct look at a backend proves, at the moment of acting.

The alert may be minutes old, and what it was computed from older still. So the backend itself is
read for some seconds: the first reading is compared with each later one. Whatever is not seen
clearly is UNREADABLE, and unknown never restarts anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fleet.progress import progress, restarted
from fleet.reading import EngineReading, Reading


class Health(StrEnum):
    """What /health said: 200, 503 (the engine is dead), a refused connection, or anything else."""

    OK = "ok"
    DEAD = "dead"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Look:
    """One look: the page's reading and what /health said.

    ``reading`` is None where there was no page, and ``why`` then says why; ``refused`` is true
    where that was because nobody listens. ``asked``: our short request was open at that moment.
    """

    reading: Reading | None
    health: Health
    why: str = ""
    refused: bool = False
    asked: bool = False


class Sight(StrEnum):
    """What a series of looks shows of the engine in question."""

    STILL = "still"
    MOVED = "moved"
    ASLEEP = "asleep"
    RESTARTED = "restarted"
    REFUSED = "refused"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Saw:
    """A Sight and one sentence why."""

    sight: Sight
    why: str


class Request(StrEnum):
    """What became of the short request. ERROR is neither an answer nor silence."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    ERROR = "error"
    NOT_SENT = "not_sent"


@dataclass(frozen=True)
class Proof:
    """A finished look at one engine of one backend.

    ``at``: when it ended. ``seconds``: how long it watched. ``dead``: whether /health said 503 at
    every look. ``reading``: the last page read. ``paused``: whether the server says that somebody
    has paused it.
    """

    at: datetime
    seconds: float
    saw: Saw
    dead: bool
    request: Request
    request_why: str
    paused: bool = False
    reading: Reading | None = None

    @property
    def start_time(self) -> float | None:
        """When the process that answered was started, in Unix seconds."""
        return self.reading.start_time if self.reading else None


def saw(looks: Sequence[Look], engine: str | None) -> Saw:
    """Compare the first of at least two looks with each later one.

    Without an ``engine`` every engine of the page has to stand still. A failed look between two
    good ones shows nothing; a failed first or last one leaves the whole unreadable.
    """
    if all(look.refused for look in looks):
        return Saw(Sight.REFUSED, looks[-1].why)
    first, last = looks[0].reading, looks[-1].reading
    if first is None or last is None:
        return Saw(Sight.UNREADABLE, looks[0].why if first is None else looks[-1].why)
    for look in looks[1:]:
        if look.reading is None:
            continue
        changed = restarted(first, look.reading)
        if changed is not None:
            return Saw(Sight.RESTARTED, changed)
        compared = _compare(first, look.reading, engine, asked=look.asked)
        if compared.sight is not Sight.STILL:
            return compared
    return _compare(first, last, engine, asked=looks[-1].asked)


def _compare(first: Reading, later: Reading, engine: str | None, *, asked: bool) -> Saw:
    names = tuple(first.engines) if engine is None else (engine,)
    if not names:
        return Saw(Sight.UNREADABLE, "the page shows no engine")
    for name in names:
        compared = _compare_engine(
            name, first.engines.get(name), later.engines.get(name), asked=asked
        )
        if compared.sight is not Sight.STILL:
            return compared
    return Saw(Sight.STILL, f"engine {', '.join(names)} wrote nothing new")


def _compare_engine(
    name: str, first: EngineReading | None, later: EngineReading | None, *, asked: bool
) -> Saw:
    if first is None or later is None:
        return Saw(Sight.UNREADABLE, f"the page does not show engine {name!r}")
    if first.awake is False or later.awake is False:
        return Saw(Sight.ASLEEP, f"engine {name} sleeps")
    unreadable = first.unreadable | later.unreadable
    if unreadable:
        fields = ", ".join(sorted(unreadable))
        return Saw(Sight.UNREADABLE, f"the page is malformed for engine {name}: {fields}")
    moved = progress(first, later, None).moved
    if asked:
        moved = tuple(item for item in moved if not _is_ours(item, first, later))
    if moved:
        return Saw(Sight.MOVED, f"engine {name} wrote {', '.join(moved)}")
    if later.kv_usage is None:
        return Saw(
            Sight.UNREADABLE,
            f"the page does not show the KV usage of engine {name}, "
            "without which a long prefill looks the same as a hang",
        )
    return Saw(Sight.STILL, f"engine {name} wrote nothing new")


def _is_ours(item: str, first: EngineReading, later: EngineReading) -> bool:
    """Whether all that moved is that our own request has joined the queue.

    A loop that admits nobody any more still shows who waits; that is no sign that it works.
    """
    if item not in ("waiting", "waiting_capacity"):
        return False
    rise = float(getattr(later, item) - (getattr(first, item) or 0))
    return 0 < rise <= 1
