"""What is remembered of a backend from one look to the next, and nothing else.

Invariants: a failed read adds no silence and takes none away; a restart, requests on a page that
may be carried over, or blindness of more than five intervals set it to 0; nothing is compared
across two processes. All times are of the monotonic clock, in seconds, and are arguments: nothing
here reads a clock.
"""

from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fleet.answer import Answer
from fleet.engine import EngineHistory, Interval, Silence, engine_after, first_seen
from fleet.fetch import Failure, Trouble
from fleet.progress import restarted
from fleet.reading import Reading

BLIND_AFTER_INTERVALS = 5
REMEMBERED_START_TIMES = 64
LOOKS_AFTER_A_FLIP = 20


@dataclass(frozen=True)
class Look:
    """One poll of a backend: from ``began`` to ``ended``, a reading or why there is none."""

    began: float
    ended: float
    result: Reading | Failure


@dataclass(frozen=True)
class History:
    """What is remembered of one backend. An empty one is a start, also after our own restart.

    ``dead``: /health answered 503 after the last look; it is asked only where nothing moved.
    ``paused``: what /is_paused said after the last look; None where it was not asked or did not
    say. A yes holds until something moves or it says no.
    ``seen_at``: the end of the last good reading. ``outage``: since then a read failed otherwise
    than by silence. ``carried_over``: it was away, there is no start time, and nothing has moved
    since: the page may be a predecessor's. ``restarted_at``: when the last restart was seen.
    ``start_times``: the different ones, the latest last. ``looks_since_flip``: good looks since an
    earlier process came back, None where that is long ago or never was.
    """

    reading: Reading | None = None
    seen_at: float | None = None
    engines: MappingProxyType[str, EngineHistory] = field(
        default_factory=lambda: MappingProxyType({})
    )
    dead: bool = False
    paused: bool | None = None
    failure: Failure | None = None
    failures: int = 0
    outage: bool = False
    carried_over: bool = False
    restarts: int = 0
    restarted_at: float | None = None
    restart_reason: str = ""
    start_times: tuple[float, ...] = ()
    looks_since_flip: int | None = None

    @property
    def just_restarted(self) -> bool:
        """Whether the last good look was the first at a new process."""
        return self.restarted_at is not None and self.restarted_at == self.seen_at

    @property
    def moved(self) -> bool:
        """Whether the last good look saw anything move."""
        return any(engine.moved for engine in self.engines.values())

    @property
    def may_be_paused(self) -> bool:
        """Whether the engines may stand still because somebody holds them."""
        return self.reading is not None and may_be_paused(self.reading, told=self.paused)

    @property
    def behind_proxy(self) -> bool:
        """Whether an earlier process came back lately: several answer at this address."""
        return self.looks_since_flip is not None


def may_be_paused(reading: Reading, *, told: bool | None) -> bool:
    """Whether the engines may be paused, by their page and by what /is_paused ``told``.

    Where weights are updated, engines are paused for it: only a "no" to the question counts there.
    """
    return told is True or (told is None and reading.updates_weights)


def after(history: History, look: Look, *, interval: float, warm_up: float) -> History:
    """The history with one more look in it.

    ``interval`` is the poll interval, and ``warm_up`` how long a process that has put out nothing
    yet is excused for being silent; both in seconds.
    """
    if isinstance(look.result, Failure):
        return _after_failure(history, look.result)
    seen = _after_reading(history, look.result, look, interval, warm_up)
    still_paused = seen.paused is True and not seen.moved
    return replace(
        seen,
        reading=look.result,
        seen_at=look.ended,
        dead=False,
        paused=True if still_paused else None,
        failure=None,
        failures=0,
        outage=False,
    )


def _after_failure(history: History, failure: Failure) -> History:
    return replace(
        history,
        failure=failure,
        failures=history.failures + 1,
        dead=False,
        # A server that only did not answer in time has not been away.
        outage=history.outage or failure.kind is not Trouble.TIMEOUT,
    )


def _after_reading(
    history: History, reading: Reading, look: Look, interval: float, warm_up: float
) -> History:
    if history.reading is None:
        return replace(history, engines=_fresh(reading, look), start_times=_start_times(reading))
    last = _last_start_time(history)
    # A page without a start time (a bad line, say) tells by its counters only who wrote it.
    comparable = None if reading.start_time is None else last
    reason = restarted(replace(history.reading, start_time=comparable), reading)
    if reason is not None:
        return _after_restart(history, reading, look, reason, another=reading.start_time != last)
    previous = look.began if history.seen_at is None else history.seen_at
    blind = look.ended - previous > BLIND_AFTER_INTERVALS * interval
    # In multiprocess mode a process that was away may show its predecessor's page until its first
    # request, where the folder of metrics was not wiped. What moved meanwhile may be the
    # predecessor's last work, so only a move between two looks from now on makes an end of it.
    was_away = reading.start_time is None and (history.outage or blind)
    over = Interval(
        previous=previous,
        began=look.began,
        ended=look.ended,
        gap=history.failures > 0,
        doubt=blind
        or was_away
        or history.behind_proxy
        or (history.reading.start_time is None) is not (reading.start_time is None),
        believed=not was_away and not history.carried_over,
        held=reading.updating or may_be_paused(reading, told=history.paused),
        warm_up=warm_up,
    )
    engines = _engines_after(history, reading, over)
    flip = history.looks_since_flip
    history = replace(history, engines=engines)
    return replace(
        history,
        carried_over=was_away or (history.carried_over and not history.moved),
        looks_since_flip=None if flip is None or flip + 1 >= LOOKS_AFTER_A_FLIP else flip + 1,
    )


def _engines_after(
    history: History, reading: Reading, over: Interval
) -> MappingProxyType[str, EngineHistory]:
    engines = {}
    for name, new in reading.engines.items():
        old = history.engines.get(name)
        # Without a start time, a page on which nothing ever moved may be a predecessor's too.
        trusted = reading.start_time is not None or (old is not None and old.proven_alive)
        engines[name] = (
            first_seen(new, over.ended)
            if old is None
            else engine_after(old, new, replace(over, believed=over.believed and trusted))
        )
    return MappingProxyType(engines)


def _after_restart(
    history: History, reading: Reading, look: Look, reason: str, *, another: bool
) -> History:
    """``another``: whether the start time is not the one seen last, or there is none."""
    came_back = another and reading.start_time in history.start_times
    fresh = _fresh(reading, look)
    return replace(
        history,
        # How long silences last that heal by themselves is known of the server, not the process.
        engines=MappingProxyType(
            {
                name: replace(engine, longest_quiet=history.engines[name].longest_quiet)
                if name in history.engines
                else engine
                for name, engine in fresh.items()
            }
        ),
        carried_over=False,
        paused=None,
        restarts=history.restarts + (0 if came_back else 1),
        restarted_at=history.restarted_at if came_back else look.ended,
        restart_reason=reason,
        start_times=_with_latest(history.start_times, reading),
        looks_since_flip=0 if came_back else history.looks_since_flip,
    )


def _last_start_time(history: History) -> float | None:
    return history.start_times[-1] if history.start_times else None


def _with_latest(start_times: tuple[float, ...], reading: Reading) -> tuple[float, ...]:
    latest = _start_times(reading)
    others = (start_time for start_time in start_times if start_time not in latest)
    return (*others, *latest)[-REMEMBERED_START_TIMES:]


def _start_times(reading: Reading) -> tuple[float, ...]:
    return () if reading.start_time is None else (reading.start_time,)


def _fresh(reading: Reading, look: Look) -> MappingProxyType[str, EngineHistory]:
    return MappingProxyType(
        {name: first_seen(new, look.ended) for name, new in reading.engines.items()}
    )


def told_of_pause(history: History, *, paused: bool | None, at: float) -> History:
    """The history once /is_paused was asked, after a look: at a paused engine no silence counts."""
    if paused is None:
        return history
    nothing = Silence(0.0, at)
    engines = history.engines
    if paused:
        engines = MappingProxyType(
            {
                name: replace(engine, quiet=nothing, starved=nothing)
                for name, engine in engines.items()
            }
        )
    return replace(history, paused=paused, engines=engines)


def asking(history: History, engine: str, at: float) -> History:
    """The history once a short request to this engine has been sent at ``at``."""
    return _with(history, engine, history.engines[engine].asking(at))


def heard(history: History, engine: str, answer: Answer, at: float) -> History:
    """The history once the short request ended at ``at``; for an engine that is gone, no change."""
    old = history.engines.get(engine)
    return history if old is None else _with(history, engine, old.heard(answer, at))


def _with(history: History, name: str, engine: EngineHistory) -> History:
    return replace(history, engines=MappingProxyType({**history.engines, name: engine}))
