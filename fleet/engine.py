"""What is remembered of one engine from one look to the next.

Invariant: silence is only ever counted between two good readings of one process in which work was
pending at both ends and nothing that the engine writes differs.
"""

from dataclasses import dataclass, fields, replace

from fleet.answer import Answer, Result
from fleet.progress import Progress, progress
from fleet.reading import EngineReading


@dataclass(frozen=True)
class Silence:
    """Seconds counted so far, and the moment up to which they are counted."""

    seconds: float
    counted_to: float

    def longer(self, until: float, not_before: float) -> "Silence":
        """The silence gone on until ``until``; what lies before ``not_before`` does not count."""
        more = max(0.0, until - max(self.counted_to, not_before))
        return Silence(self.seconds + more, max(self.counted_to, until))


@dataclass(frozen=True)
class Asked:
    """Our short request to an engine: since when it is unanswered, and whether it is still open."""

    since: float
    in_flight: bool


@dataclass(frozen=True)
class EngineHistory:
    """One engine of one process. ``reading`` holds the last known value of every field.

    ``seen_since``: when it was first read. ``kv_peak``: highest KV usage since the last output
    token. ``proven_alive``: seen to move in this process. ``longest_quiet``: the longest silence
    that ended by itself, in seconds. ``over``: seconds between the two last good readings, 0 after
    the first. ``last_asked``: when the last short request was sent, None if never.
    """

    reading: EngineReading
    quiet: Silence
    starved: Silence
    seen_since: float
    kv_peak: float | None = None
    proven_alive: bool = False
    longest_quiet: float = 0.0
    progress: Progress | None = None
    over: float = 0.0
    asked: Asked | None = None
    last_asked: float | None = None
    answer: Answer | None = None

    @property
    def requests_pending(self) -> bool:
        """Whether the engine itself shows work that its scheduler ought to get on with."""
        now = self.reading
        return (now.running or 0) > 0 or (
            (now.waiting or 0) > 0 and (now.waiting_capacity or 0) > 0
        )

    @property
    def anything_pending(self) -> bool:
        """The same with every waiting request, whatever it waits for."""
        return (self.reading.running or 0) > 0 or (self.reading.waiting or 0) > 0

    def asking(self, at: float) -> "EngineHistory":
        """The history once a short request has been sent at ``at``."""
        since = at if self.asked is None else self.asked.since
        return replace(self, asked=Asked(since, in_flight=True), last_asked=at)

    def heard(self, answer: Answer, at: float) -> "EngineHistory":
        """The history once the short request has ended at ``at``.

        An answer is a sign of life. Silence stays silence until something moves. An error is
        neither. The end of a request that was sent to an earlier process says nothing of this one.
        """
        if self.asked is None:
            return self
        match answer.result:
            case Result.ANSWERED:
                alive = replace(self, asked=None, answer=answer, proven_alive=True)
                return replace(alive, quiet=Silence(0.0, at), starved=Silence(0.0, at))
            case Result.UNANSWERED:
                return replace(self, asked=Asked(self.asked.since, in_flight=False), answer=answer)
            case Result.ERROR:
                return replace(self, asked=None, answer=answer)


def first_seen(new: EngineReading, at: float) -> EngineHistory:
    """A history that begins with the reading ``new`` at ``at``."""
    start = Silence(0.0, at)
    return EngineHistory(new, start, start, at, kv_peak=new.kv_usage)


@dataclass(frozen=True)
class Interval:
    """From the last good reading to this one, all times monotonic seconds.

    ``previous`` ended the last one; this one began at ``began`` and ended at ``ended``. ``gap``:
    reads failed in between, so the time does not count. ``doubt``: what was silent cannot be held
    against the engine (blindness, a page carried over), so counting starts afresh.
    """

    previous: float
    began: float
    ended: float
    gap: bool
    doubt: bool


def engine_after(old: EngineHistory, new: EngineReading, over: Interval) -> EngineHistory:
    """The history with one more reading of the same process in it."""
    step = progress(old.reading, new, old.kv_peak)
    known = _last_known(old.reading, new)
    engine = replace(
        old,
        reading=known,
        progress=step,
        over=over.ended - over.previous,
        kv_peak=_kv_peak(old, known, step),
        proven_alive=old.proven_alive or step.sign_of_life,
    )
    if step.sign_of_life:
        return _alive(engine, over, worked=step.worked)
    if over.doubt or known.awake is False or not known.pending_is_readable:
        nothing = Silence(0.0, over.ended)
        return replace(engine, quiet=nothing, starved=nothing)
    return _silent(engine, over)


def _last_known(old: EngineReading, new: EngineReading) -> EngineReading:
    """The new values, and for a line that is missing this time the value it had."""
    return replace(
        old,
        **{
            item.name: getattr(new, item.name)
            for item in fields(new)
            if getattr(new, item.name) is not None
        },
    )


def _kv_peak(old: EngineHistory, known: EngineReading, step: Progress) -> float | None:
    if step.steps > 0 or step.generation_tokens > 0 or old.kv_peak is None:
        return known.kv_usage
    return max(old.kv_peak, known.kv_usage or 0.0)


def _alive(engine: EngineHistory, over: Interval, *, worked: bool) -> EngineHistory:
    lasted = engine.quiet.longer(over.began, 0.0).seconds if engine.quiet.seconds > 0 else 0.0
    asked = engine.asked
    still_open = asked is not None and asked.in_flight
    starved = engine.starved
    if worked or not engine.anything_pending:
        starved = Silence(0.0, over.ended)
    else:
        starved = starved.longer(over.began, 0.0)
    return replace(
        engine,
        quiet=Silence(0.0, over.ended),
        starved=starved,
        longest_quiet=max(engine.longest_quiet, lasted),
        asked=Asked(over.ended, in_flight=True) if still_open else None,
    )


def _silent(engine: EngineHistory, over: Interval) -> EngineHistory:
    """Nothing moved. Time is counted where work was pending and no read failed in between."""
    since = engine.asked.since if engine.asked is not None else None
    return replace(
        engine,
        quiet=_counted(engine.quiet, over, pending=engine.requests_pending, asked_since=since),
        starved=_counted(engine.starved, over, pending=engine.anything_pending, asked_since=since),
    )


def _counted(
    silence: Silence, over: Interval, *, pending: bool, asked_since: float | None
) -> Silence:
    if not pending and asked_since is None:
        return Silence(0.0, over.ended)
    if over.gap:
        return Silence(silence.seconds, over.ended)
    return silence.longer(over.began, 0.0 if pending or asked_since is None else asked_since)
