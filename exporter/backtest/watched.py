"""What watching one target's looks has come to: the exporter's history, and the would-be restarts.

The judgement is ``fleet.history.after`` and ``fleet.judgement.judge`` and nothing else, on a clock
made of the samples' timestamps. No short request is ever in flight: nothing was asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from exporter.backtest.episode import End, Episode, Healed
from fleet.backend import Backend, Kind
from fleet.fetch import Failure
from fleet.history import BLIND_AFTER_INTERVALS, History, Look, after
from fleet.judgement import judge
from fleet.reading import Reading
from fleet.schema import DefaultsSection
from fleet.state import State

WARM_UP = DefaultsSection().warm_up


@dataclass(frozen=True)
class Watched:
    """One target, as far as its looks have been gone through.

    ``episodes`` have ended, ``hanging`` have not. ``engine_seconds``: time between neighbouring
    good looks at one process, summed over engines. ``first`` and ``last``: when the first and the
    last look were. ``engines``: all that were seen. ``identified`` and ``measured``: whether any
    page had a start time, and any engine its KV usage.
    """

    history: History = field(default_factory=History)
    episodes: tuple[Episode, ...] = ()
    hanging: Mapping[str, Episode] = field(default_factory=lambda: MappingProxyType({}))
    longest: Healed | None = None
    engine_seconds: float = 0.0
    first: float | None = None
    last: float | None = None
    looks: int = 0
    failed: int = 0
    engines: frozenset[str] = frozenset()
    identified: bool = False
    measured: bool = False


def watch(watched: Watched, look: Look, *, interval: float, wait: float) -> Watched:
    """One more look. ``interval`` and ``wait`` are the target's, in seconds."""
    old = watched.history
    new = after(old, look, interval=interval, warm_up=WARM_UP)
    seen = replace(
        watched,
        history=new,
        first=look.ended if watched.first is None else watched.first,
        last=look.ended,
        looks=watched.looks + 1,
    )
    if isinstance(look.result, Failure):
        return replace(seen, failed=seen.failed + 1)
    return replace(
        _proven(_ended(seen, look.ended), look.ended, wait),
        longest=_longest(seen, old, look.ended, interval),
        engine_seconds=seen.engine_seconds + _engine_seconds(new, interval),
        engines=seen.engines | new.engines.keys(),
        identified=seen.identified or look.result.start_time is not None,
        measured=seen.measured or _shows_kv_usage(look.result),
    )


def finished(watched: Watched, *, until: float, interval: float) -> Watched:
    """The same once there are no more looks; ``until`` is the end of what was asked for."""
    seen = watched.history.seen_at or 0.0
    to_the_end = until - seen <= BLIND_AFTER_INTERVALS * interval
    end = End.STILL_HUNG if to_the_end else End.DATA_ENDED
    still = (replace(episode, end=end, ended_at=seen) for episode in watched.hanging.values())
    return replace(watched, episodes=(*watched.episodes, *still), hanging=MappingProxyType({}))


def restarts(episodes: tuple[Episode, ...]) -> int:
    """How many restarts of one target the episodes come to: one covers all that hangs meanwhile."""
    count = 0
    over = float("-inf")
    for episode in sorted(episodes, key=lambda episode: episode.proven_at):
        count += episode.proven_at >= over
        over = max(over, episode.ended_at)
    return count


def _ended(watched: Watched, at: float) -> Watched:
    """The hangs that a good look shows to be over."""
    history = watched.history
    another = history.just_restarted or history.looks_since_flip == 0
    over = {}
    for name, episode in watched.hanging.items():
        engine = history.engines.get(name)
        if another:
            how = history.restart_reason
            over[name] = replace(episode, end=End.RESTARTED, ended_at=at, how=how)
        elif engine is not None and engine.moved:
            over[name] = replace(episode, end=End.CAME_BACK, ended_at=at)
    if not over:
        return watched
    left = {name: one for name, one in watched.hanging.items() if name not in over}
    return replace(
        watched,
        episodes=(*watched.episodes, *over.values()),
        hanging=MappingProxyType(left),
    )


def _proven(watched: Watched, at: float, wait: float) -> Watched:
    """The hangs that the judgement newly holds proven."""
    backend = Backend("backtest", "", Kind.VLLM, wait=wait, load_time=0.0, warm_up=WARM_UP)
    new = {}
    for name, verdict in judge(watched.history, backend).engines.items():
        if verdict.state is State.STUCK and name not in watched.hanging:
            engine = watched.history.engines[name]
            new[name] = Episode(
                engine=name,
                silent_since=engine.still_since,
                proven_at=at,
                quiet=engine.quiet.seconds,
                why=verdict.why,
            )
    return (
        replace(watched, hanging=MappingProxyType({**watched.hanging, **new})) if new else watched
    )


def _longest(watched: Watched, old: History, at: float, interval: float) -> Healed | None:
    longest = watched.longest
    for name, engine in watched.history.engines.items():
        before = old.engines.get(name)
        healed = before is not None and engine.longest_quiet > before.longest_quiet
        if healed and (longest is None or engine.longest_quiet > longest.seconds):
            longest = Healed(engine.longest_quiet, interval, at, name)
    return longest


def _engine_seconds(history: History, interval: float) -> float:
    return sum(
        engine.over
        for engine in history.engines.values()
        if engine.progress is not None and engine.over <= BLIND_AFTER_INTERVALS * interval
    )


def _shows_kv_usage(reading: Reading) -> bool:
    return any(engine.kv_usage is not None for engine in reading.engines.values())
