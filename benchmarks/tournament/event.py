"""What happens to a server: the timeline of a season, the same for every method."""

from enum import StrEnum
from typing import NamedTuple

from benchmarks.tournament.job import Pace


class Happening(StrEnum):
    """One kind of thing that happens. All but HANG, FREEZE and DEADLOCK leave a server healthy."""

    REQUEST = "request"
    COMPILE = "compile"
    ENGINE_GC = "engine_gc"
    API_GC = "api_gc"
    RESTART = "restart"
    SLEEP = "sleep"
    WAKE = "wake"
    PAUSE = "pause"
    RESUME = "resume"
    HANG = "hang"
    FREEZE = "freeze"


class HangKind(StrEnum):
    """How a server hangs; none of these ends by itself."""

    RUNNING = "frozen with requests"
    IDLE = "frozen while idle"
    DEADLOCK = "admission deadlock"
    DEADLOCK_ARRIVALS = "admission deadlock, clients still come"
    ONE_RANK = "one rank of two frozen"
    DEAD = "engine dead, API alive"
    AFTER_RESTART = "right after a restart"
    PREFILL = "frozen in prefill"


class On(StrEnum):
    """What a server of the tournament is made of."""

    LEAPS = "leaps"
    DEMO = "demo.vllm"
    RECORDING = "recording"


class Event(NamedTuple):
    """Something at ``at``, seconds of the virtual clock; which fields count depends on ``what``.

    ``seconds``: how long it lasts, or for a request how long its client waits (0: for ever).
    ``process``: only if it still is this process, counted from 0.
    """

    at: float
    what: Happening
    seconds: float = 0.0
    prompt: int = 0
    target: int = 0
    deferred: float = 0.0
    engine: int = 0
    hang: HangKind | None = None
    process: int | None = None


class Spec(NamedTuple):
    """A server of the tournament and its season.

    ``first_step``: seconds of compilation in the first step of each process. ``has_start_time``:
    False in Prometheus' multiprocess mode, where ``wiped`` says whether the folder of metrics is
    wiped at a start. ``tells_reasons``: whether the page has waiting requests by reason.
    ``developer_mode``: whether /is_paused is served. ``on``: what it is made of; for a
    recording ``name`` is its folder.
    """

    name: str
    workload: str
    seed: int
    hours: float
    pace: Pace
    events: tuple[Event, ...]
    ranks: int = 1
    load_seconds: float = 120.0
    first_step: float = 0.0
    has_start_time: bool = True
    wiped: bool = True
    keeps_gauges: bool = False
    tells_reasons: bool = True
    developer_mode: bool = False
    on: On = On.LEAPS
