"""What is remembered of one engine from one look to the next.

Invariant: silence is only ever counted between two good readings of one process that differ in
nothing the engine writes, and only while work was pending: shown by the later page (a line that is
missing there shows none), or our own short request. A page without KV usage proves nothing: on it a
long prefill looks the same as a hang. Nor does the silence of an engine that somebody may have
paused, or of a new process that still compiles for its first request.
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

    ``first_seen``: when this process was first read. ``still_since``: nothing it writes has moved
    since.
    ``kv_peak``: highest KV usage since the last output token. ``proven_alive``: seen to move in
    this process. ``longest_quiet``: the longest silence that ended by itself, in seconds.
    ``over``: seconds between the two last good readings, 0 after the first. ``last_asked``: when
    the last short request was sent, None if never.
    """

    reading: EngineReading
    quiet: Silence
    starved: Silence
    first_seen: float
    still_since: float
    kv_peak: float | None = None
    proven_alive: bool = False
    longest_quiet: float = 0.0
    progress: Progress | None = None
    over: float = 0.0
    asked: Asked | None = None
    last_asked: float | None = None
    answer: Answer | None = None

    @property
    def anything_pending(self) -> bool:
        """Whether anything was running or waiting by the last known values."""
        return self.reading.anything_pending

    @property
    def moved(self) -> bool:
        """Whether the last good reading differs from the one before it in anything it wrote."""
        return self.progress is not None and self.progress.sign_of_life

    def asking(self, at: float) -> "EngineHistory":
        """The history once a short request has been sent at ``at``."""
        since = at if self.asked is None else self.asked.since
        return replace(self, asked=Asked(since, in_flight=True), last_asked=at)

    def heard(self, answer: Answer, at: float) -> "EngineHistory":
        """The history once the short request has ended at ``at``.

        An answer is a sign of life. Silence stays silence until something moves, if nothing did
        while the request was open. An error is neither, and leaves what an earlier request met
        with. The end of a request that was sent to an earlier process says nothing of this one.
        """
        if self.asked is None:
            return self
        match answer.result:
            case Result.ANSWERED:
                alive = replace(self, asked=None, answer=answer, proven_alive=True)
                return replace(alive, quiet=Silence(0.0, at), starved=Silence(0.0, at))
            case Result.UNANSWERED:
                # Something moved while it was open, a sleep perhaps: too short a silence since.
                moved = self.last_asked is None or self.asked.since > self.last_asked
                given_up = None if moved else Asked(self.asked.since, in_flight=False)
                return replace(self, asked=given_up, answer=answer)
            case Result.ERROR:
                met_with_silence = (
                    self.last_asked is not None and self.asked.since < self.last_asked
                )
                before = Asked(self.asked.since, in_flight=False) if met_with_silence else None
                return replace(self, asked=before, answer=answer)


def first_seen(new: EngineReading, at: float) -> EngineHistory:
    """A history that begins with the reading ``new`` at ``at``."""
    start = Silence(0.0, at)
    return EngineHistory(new, start, start, at, at, kv_peak=new.kv_usage)


@dataclass(frozen=True)
class Interval:
    """From the last good reading to this one, all times monotonic seconds.

    ``previous`` ended the last one; this one began at ``began`` and ended at ``ended``. ``gap``:
    reads failed in between, so the time does not count. ``doubt``: what was silent cannot be held
    against the engine (blindness, an absence, several processes by turns): counting starts afresh.
    ``believed``: the page is this process's own, and not perhaps one that its predecessor left;
    if it is not, only our own short request counts as pending. ``held``: somebody has paused the
    engines, or may have. ``warm_up``: seconds for which a new process is excused that has put out
    nothing yet.
    """

    previous: float
    began: float
    ended: float
    gap: bool
    doubt: bool
    believed: bool
    held: bool = False
    warm_up: float = 0.0


def engine_after(old: EngineHistory, new: EngineReading, over: Interval) -> EngineHistory:
    """The history with one more reading of the same process in it."""
    step = progress(old.reading, new, old.kv_peak)
    # Across a doubt nothing is remembered: a value from before it may be another process's.
    known = new if over.doubt else _last_known(old.reading, new)
    engine = replace(
        old,
        reading=known,
        progress=step,
        over=over.ended - over.previous,
        # Whether it is the same process is not known either: it may have to compile.
        first_seen=over.ended if over.doubt else old.first_seen,
        kv_peak=known.kv_usage if over.doubt else _kv_peak(old, known, step),
        # What moved across an absence may be a predecessor's last work.
        proven_alive=not over.doubt and (old.proven_alive or _changed(old.reading, step)),
        still_since=over.ended if step.sign_of_life else old.still_since,
        # Sent before that, perhaps to a process that is gone: its silence proves nothing.
        asked=None if over.doubt else _asked(old, over),
    )
    if step.sign_of_life:
        pending = old.anything_pending and new.anything_pending
        return _alive(engine, over, starving=pending and not step.worked)
    if over.doubt or over.held or known.awake is False or _is_blurred(known, new):
        nothing = Silence(0.0, over.ended)
        return replace(engine, quiet=nothing, starved=nothing)
    return _silent(engine, new, over)


def _asked(old: EngineHistory, over: Interval) -> Asked | None:
    """Our short request: one that a pause holds up is as good as sent when that ends."""
    if old.asked is None or not over.held:
        return old.asked
    return Asked(over.ended, in_flight=True) if old.asked.in_flight else None


def _is_blurred(known: EngineReading, new: EngineReading) -> bool:
    """Whether the page lacks what silence could be told by."""
    return not new.pending_is_readable or (known.anything_pending and new.kv_usage is None)


def _changed(before: EngineReading, step: Progress) -> bool:
    """Whether a step of this process wrote the page: something moved from one value to another.

    A line that only appears is no proof: the page before may have been cut short, and the page now
    be a predecessor's. Nor is ``awake``, which is written when the server is put to sleep or woken,
    without a step: running and waiting may still be what a predecessor left.
    """
    return any(name != "awake" and getattr(before, name) is not None for name in step.moved)


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


def _alive(engine: EngineHistory, over: Interval, *, starving: bool) -> EngineHistory:
    """Something moved: silence ends. Its last piece is only known where no read failed in it."""
    lasted = engine.quiet.seconds
    if lasted > 0 and not over.gap and not over.doubt:
        lasted = engine.quiet.longer(over.began, 0.0).seconds
    asked = engine.asked
    still_open = asked is not None and asked.in_flight
    nothing = Silence(0.0, over.ended)
    return replace(
        engine,
        quiet=nothing,
        starved=_counted(engine.starved, over)
        if starving and not over.doubt and not over.held
        else nothing,
        longest_quiet=max(engine.longest_quiet, lasted),
        asked=Asked(over.ended, in_flight=True) if still_open else None,
    )


def _silent(engine: EngineHistory, new: EngineReading, over: Interval) -> EngineHistory:
    """Nothing moved. Time is counted where work was pending and no read failed in between."""
    return replace(
        engine,
        quiet=_silence(engine, engine.quiet, over, pending=new.requests_pending),
        starved=_silence(engine, engine.starved, over, pending=new.anything_pending),
    )


def _silence(engine: EngineHistory, so_far: Silence, over: Interval, *, pending: bool) -> Silence:
    excused = engine.first_seen + over.warm_up if engine.reading.cold else 0.0
    if pending and over.believed:
        return _counted(so_far, over, not_before=excused)
    if engine.asked is not None:
        return _counted(so_far, over, not_before=max(excused, engine.asked.since))
    return Silence(0.0, over.ended)


def _counted(so_far: Silence, over: Interval, not_before: float = 0.0) -> Silence:
    if over.gap:
        return Silence(so_far.seconds, over.ended)
    return so_far.longer(over.began, not_before)
