"""By counters on the page that stand still while requests are pending."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.tournament.seen import Seen
from fleet.fetch import Failure
from fleet.reading import EngineReading, Reading

TIMEOUT = 5.0


@dataclass
class Stand:
    """A counter of one engine: its value, when it last rose, and since when work is pending."""

    value: float
    rose_at: float
    before_rise: float
    pending_since: float | None = None
    ever_rose: bool = False


def tokens(engine: EngineReading) -> float:
    """``vllm:generation_tokens_total``."""
    return engine.generation_tokens or 0.0


def steps(engine: EngineReading) -> float:
    """``vllm:iteration_tokens_total_count``."""
    return engine.steps or 0.0


def runs(engine: EngineReading) -> bool:
    """Whether ``vllm:num_requests_running`` is above 0."""
    return (engine.running or 0) > 0


class CounterMethod:
    """Follows one counter of each engine over the pages; a failed read shows nothing."""

    name = ""
    firing = False
    every = 15.0

    def __init__(self) -> None:
        self.due = self.every
        self.stands: dict[str, Stand] = {}

    def look(self, server: Seen, now: float) -> bool:
        """Read the page."""
        self.due = now + self.every
        reading = server.metrics(now, TIMEOUT)
        if isinstance(reading, Failure):
            return False
        seen = self.seen(reading)
        for name, (value, pending) in seen.items():
            self._follow(name, value, pending=pending, now=now)
        return any(self.hangs(self.stands[name], now) for name in seen)

    def _follow(self, name: str, value: float, *, pending: bool, now: float) -> None:
        stand = self.stands.get(name)
        if stand is None or value < stand.value:
            # Another process: its counter begins anew.
            stand = self.stands[name] = Stand(value, now, now)
        elif value > stand.value:
            stand.value, stand.rose_at, stand.ever_rose = value, now, True
            stand.before_rise = now - self.every
        if not pending:
            stand.pending_since = None
        elif stand.pending_since is None:
            stand.pending_since = now

    def seen(self, reading: Reading) -> Mapping[str, tuple[float, bool]]:
        """The counter of each engine, and whether work is pending there."""
        return {name: (tokens(each), runs(each)) for name, each in reading.engines.items()}

    def hangs(self, stand: Stand, now: float) -> bool:
        """Whether this counter says so."""
        raise NotImplementedError

    def restarted(self, serves_at: float) -> None:
        """Start afresh."""
        self.stands, self.due = {}, serves_at + self.every

    def told_a_person(self) -> bool:
        """Never."""
        return False


def _still(stand: Stand, now: float) -> float:
    """Seconds in which the counter stood while work was pending all the time."""
    if stand.pending_since is None:
        return 0.0
    return now - max(stand.pending_since, stand.rose_at)


class TokensForAMinute(CounterMethod):
    """No token for 60 s while requests run.

    The signature by which operators describe a wedged engine, ``generation_tokens_total`` static
    and ``num_requests_running`` 2 (https://github.com/rwlove/home-ops/pull/13341), as a rule: read
    every 20 s, per engine, unchanged for 60 s in which requests ran at each read.
    """

    name = "tokens generated, 60 s"
    every = 20.0

    def hangs(self, stand: Stand, now: float) -> bool:
        """60 s without a token."""
        return _still(stand, now) >= 60.0  # noqa: PLR2004 -- as described


class ZeroThroughput(CounterMethod):
    """The alert ``ZeroThroughput`` as found in public Prometheus rules.

    ``rate(vllm:generation_tokens_total[5m]) == 0 and vllm:num_requests_running > 0``, for 3m,
    scraped and evaluated every 15 s.
    """

    name = "tokens, rate[5m] == 0 for 3m"

    def __init__(self) -> None:
        super().__init__()
        self._zero_since: dict[int, float] = {}

    def hangs(self, stand: Stand, now: float) -> bool:
        """The rate is 0 where no pair of samples in the last 5 minutes rose."""
        rate_is_zero = not stand.ever_rose or stand.before_rise <= now - 300.0
        if not rate_is_zero or stand.pending_since is None:
            self._zero_since.pop(id(stand), None)
            return False
        return now - self._zero_since.setdefault(id(stand), now) >= 180.0  # noqa: PLR2004

    def restarted(self, serves_at: float) -> None:
        """Start afresh."""
        super().restarted(serves_at)
        self._zero_since = {}


class LastToken(CounterMethod):
    """The last token is older than 60 s while requests run.

    ``GET /health/decode`` as proposed in https://github.com/vllm-project/vllm/pull/45097 and
    /45526: 503 where running > 0 and the last decoded token, of whatever request, is older than
    60 s; 200 where no token was ever decoded. Followed over the page every 20 s, per engine, and
    asked by a probe that wants three failures in a row.
    """

    name = "last token older than 60 s"
    every = 20.0

    def __init__(self) -> None:
        super().__init__()
        self._failures: dict[int, int] = {}

    def hangs(self, stand: Stand, now: float) -> bool:
        """Three times stalled."""
        old = stand.value > 0 and now - stand.rose_at > 60.0  # noqa: PLR2004 -- as described
        stalled = old and stand.pending_since is not None
        failures = self._failures.get(id(stand), 0) + 1 if stalled else 0
        self._failures[id(stand)] = failures
        return failures >= 3  # noqa: PLR2004 -- failureThreshold

    def restarted(self, serves_at: float) -> None:
        """Start afresh."""
        super().restarted(serves_at)
        self._failures = {}


class StepsTwice(CounterMethod):
    """The iteration count twice the same, 60 s apart, while requests are pending.

    The least form of the heartbeat by ``vllm:iteration_tokens_total_count`` ("advances on every
    engine step, freezes only on a stall"): two successive checks see the same count, and requests
    running or waiting at both.
    """

    name = "iteration count, 2 x 60 s"
    every = 60.0

    def seen(self, reading: Reading) -> Mapping[str, tuple[float, bool]]:
        """Each engine's count of steps."""
        return {
            name: (steps(each), each.anything_pending) for name, each in reading.engines.items()
        }

    def hangs(self, stand: Stand, now: float) -> bool:
        """The same count at two checks."""
        return _still(stand, now) >= self.every


class StepsWithGrace(CounterMethod):
    """The iteration count unchanged for 120 s while requests are pending.

    The scheduler heartbeat of https://github.com/gonka-ai/gonka/pull/1421: the counts of one
    server are summed, a restart begins a new baseline, a failed scrape cannot pass for idle, and
    the grace (``MLNODE_HANG_GRACE_SEC``) is 120 s. Read every 30 s.
    """

    name = "iteration count, 120 s grace"
    every = 30.0
    grace = 120.0

    def seen(self, reading: Reading) -> Mapping[str, tuple[float, bool]]:
        """The whole server's count of steps."""
        every: Iterable[EngineReading] = reading.engines.values()
        total = sum(steps(each) for each in every)
        return {"": (total, any(each.anything_pending for each in every))}

    def hangs(self, stand: Stand, now: float) -> bool:
        """Longer than the grace."""
        return _still(stand, now) >= self.grace


class StepsForFiveMinutes(StepsTwice):
    """The iteration count unchanged for 300 s while requests are pending.

    ``engine_output_stall`` with its default ``SPARKRING_LIVENESS_OUTPUT_SECONDS=300``, as described
    in https://github.com/FujitsuPolycom/sparkring/issues/231. Read every 30 s, per engine.
    """

    name = "iteration count, 300 s"
    every = 30.0

    def hangs(self, stand: Stand, now: float) -> bool:
        """Five minutes without a counted step."""
        return _still(stand, now) >= 300.0  # noqa: PLR2004 -- as described
