"""Whatever happens, an engine that works is never called stuck, and one that hangs is, in time.

A model of vLLM, our looks at it, failures, gaps, restarts of either side and bad lines, all on one
virtual clock. The rules of the machine are what can happen; its invariant is the promise.
"""

from dataclasses import replace

from hypothesis import HealthCheck, settings, target
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exporter.asking import engines_to_ask, past_proof
from fleet.answer import Answer, Result
from fleet.backend import Backend
from fleet.fetch import Failure, Trouble
from fleet.history import History, Look, after, asking, heard, told_of_pause
from fleet.judgement import Judgement, judge
from fleet.state import State
from tests.fleet.model import Server
from tests.fleet.watching import backend

INTERVAL = 15.0
TIMEOUT = 5.0
WAIT = 60.0
PATIENCE = 3 * WAIT
WARM_UPS = [0.0, 2 * WAIT]
# A step takes less than two waits, by this much.
MARGIN = 0.01
ANSWERED = Answer(Result.ANSWERED, 0.1, "answered in 0.10 s")
UNANSWERED = Answer(Result.UNANSWERED, PATIENCE, "not answered")
ERROR = Answer(Result.ERROR, 0.0, "503")

READ_TIMES = st.sampled_from([0.0, 0.01, 0.5, TIMEOUT - 0.01, TIMEOUT])
ENGINES = st.sampled_from(["0", "1"])
SPOILT = st.sampled_from(
    [
        {"vllm:kv_cache_usage_perc": "x"},
        {"vllm:generation_tokens_total": "x"},
        {"vllm:iteration_tokens_total_count": "x"},
        {"vllm:num_requests_running": "x"},
        {"vllm:num_requests_waiting{": "x{"},
        {"vllm:prefix_cache_queries_total": "x"},
        {"process_start_time_seconds": "x"},
        {"process_start_time_seconds ": "process_start_time_seconds NaN"},
        {"vllm:num_requests_running{": "vllm:num_requests_running{{"},
        {"vllm:kv_cache_usage_perc{": "vllm:kv_cache_usage_perc{{"},
        {'perc{engine="0",model_name="m"} ': 'perc{engine="0",model_name="m"} NaN'},
        {'engine="1"': 'engine="7"'},
    ]
)
FAILURES = st.sampled_from(
    [
        Trouble.REFUSED,
        Trouble.RESET,
        Trouble.HTTP_ERROR,
        Trouble.UNREADABLE,
        Trouble.UNAUTHORISED,
        Trouble.NO_KEY,
    ]
)


class Watch(RuleBasedStateMachine):
    """An exporter's poller and a server. ``now`` is time; ``clock`` is what our clock shows."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.clock = 10_000.0
        self.server = Server()
        self.history = History()
        self.judgement: Judgement | None = None
        self.backend: Backend = backend(WAIT)
        self.last_poll = self.now
        # Our open requests: when sent, to which process. And ends not yet collected.
        self.open: dict[str, tuple[float, int]] = {}
        self.ends: list[tuple[str, Answer]] = []
        self.process = 0
        self.longest_quiet = 0.0
        self.answer_every = 300.0
        self.process_began = self.now
        self.witness_fails = False

    # time

    def deadline(self, name: str) -> float | None:
        engine = self.server.engines[name]
        if engine.pending_since is None or not engine.awake or engine.excused:
            return None
        since = engine.pending_since
        if engine.steps == 0:
            # Nothing has come out of it yet: it may compile for longer.
            since = max(since, self.process_began + self.backend.warm_up)
        return max(self.now, since + 2 * WAIT - MARGIN)

    def let_pass(self, seconds: float, *, clock: bool = True) -> None:
        """Time passes; an engine that must work in it, does."""
        until = self.now + seconds
        while True:
            due = [
                (when, name)
                for name in self.server.engines
                if (when := self.deadline(name)) is not None and when <= until
            ]
            if not due or not self.server.up:
                break
            when, name = min(due)
            self.tick(when - self.now, clock=clock)
            # A pause that no witness tells of is none to us, and must not last like a hang.
            self.server.engines[name].resume(self.now)
            self.work_at(name, prefill=True)
            if self.deadline(name) == when:
                break
        self.tick(until - self.now, clock=clock)

    def tick(self, seconds: float, *, clock: bool) -> None:
        self.now += seconds
        if clock:
            self.clock += seconds
        for name, (sent, process) in list(self.open.items()):
            if self.clock - sent >= past_proof(self.backend):
                del self.open[name]
                self.ends.append((name, UNANSWERED))
                if process == self.process and name in self.server.engines:
                    self.server.engines[name].forget_ours()

    def work_at(self, name: str, *, prefill: bool) -> None:
        if self.server.engines[name].work(self.now, prefill=prefill):
            _, process = self.open.get(name, (0.0, -1))
            if process == self.process:
                del self.open[name]
                self.ends.append((name, ANSWERED))

    # what can happen at the server

    @initialize(
        several=st.booleans(),
        kind=st.sampled_from([(1000.0, True), (None, False), (None, False), (None, True)]),
        busy=st.booleans(),
        answer_every=st.sampled_from([INTERVAL, WAIT, 300.0]),
        development=st.booleans(),
        warm_up=st.sampled_from(WARM_UPS),
    )
    def begin(  # noqa: PLR0913 -- what a watch begins with
        self,
        *,
        several: bool,
        kind: tuple[float | None, bool],
        busy: bool,
        answer_every: float,
        development: bool,
        warm_up: float,
    ) -> None:
        start_time, wiped = kind
        self.server = Server(
            ("0", "1") if several else ("0",), start_time, wiped=wiped, development=development
        )
        self.answer_every = answer_every
        self.backend = replace(self.backend, warm_up=warm_up)
        if busy:
            for engine in self.server.engines.values():
                engine.arrive(self.now)
                engine.work(self.now, prefill=False)

    @rule(name=ENGINES)
    def arrive(self, name: str) -> None:
        if name in self.server.engines:
            self.server.engines[name].arrive(self.now)

    @rule(name=ENGINES, prefill=st.booleans())
    def work(self, name: str, *, prefill: bool) -> None:
        if name in self.server.engines:
            self.work_at(name, prefill=prefill)

    @rule(name=ENGINES)
    def finish(self, name: str) -> None:
        if name in self.server.engines:
            self.server.engines[name].finish(self.now)

    @rule(name=ENGINES)
    def preempt(self, name: str) -> None:
        if name in self.server.engines:
            self.server.engines[name].preempt()

    @rule(name=ENGINES, deferred=st.booleans())
    def defer(self, name: str, *, deferred: bool) -> None:
        if name in self.server.engines and deferred:
            self.server.engines[name].defer()
        elif name in self.server.engines:
            self.server.engines[name].undefer(self.now)

    @rule(asleep=st.sampled_from([True, False, False]))
    def sleep_or_wake(self, *, asleep: bool) -> None:
        for engine in self.server.engines.values():
            if asleep:
                engine.sleep()
            else:
                engine.wake(self.now)

    @precondition(lambda self: self.server.development)
    @rule(paused=st.booleans())
    def pause_or_resume(self, *, paused: bool) -> None:
        for engine in self.server.engines.values():
            if paused:
                engine.pause()
            else:
                engine.resume(self.now)

    @rule(fails=st.booleans())
    def the_witness_fails(self, *, fails: bool) -> None:
        """Asked whether it is paused, a server may not answer."""
        self.witness_fails = fails

    @rule(name=ENGINES)
    def shed_our_request(self, name: str) -> None:
        """The API server answers our request with an error; the engine never had it."""
        if name in self.open:
            del self.open[name]
            self.ends.append((name, ERROR))
            if name in self.server.engines:
                self.server.engines[name].forget_ours()

    @rule(
        refused=st.booleans(),
        looks=st.integers(0, 8),
        gap=st.sampled_from([INTERVAL, 2 * INTERVAL, 10 * INTERVAL]),
        cut=st.booleans(),
        last_work=st.booleans(),
    )
    def restart(self, *, refused: bool, looks: int, gap: float, cut: bool, last_work: bool) -> None:
        """The server goes away and comes back, which is seen as a refusal, or takes its time."""
        if last_work:
            for name in self.server.engines:
                self.work_at(name, prefill=True)
        self.server.up = False
        if refused:
            self.look_and_fail(Trouble.REFUSED)
            self.let_pass(gap)
        else:
            for _ in range(looks):
                self.look_and_fail(Trouble.TIMEOUT)
                self.let_pass(INTERVAL)
            self.let_pass(max(0.0, self.last_good_end() + 5 * INTERVAL + 1 - self.clock))
        self.server.restart()
        self.process += 1
        self.process_began = self.now
        self.server.up = True
        if cut:
            self.ends += [(name, ERROR) for name in self.open]
            self.open = {}

    def last_good_end(self) -> float:
        return self.history.seen_at or 0.0

    # what can happen to us

    def hear(self) -> None:
        for name, answer in self.ends:
            self.history = heard(self.history, name, answer, self.clock)
        self.ends = []

    def remember(self, look: Look) -> None:
        self.history = after(self.history, look, interval=INTERVAL, warm_up=self.backend.warm_up)
        self.ask_the_witness()
        in_flight = {*self.open, *(name for name, _ in self.ends)}
        due = engines_to_ask(self.history, self.backend, self.clock, self.answer_every)
        for name in due:
            if name not in in_flight:
                self.history = asking(self.history, name, self.clock)
                if name in self.server.engines:
                    self.open[name] = (self.clock, self.process)
                    self.server.engines[name].ask(self.now)
                else:
                    self.ends.append((name, ERROR))
        self.judgement = judge(self.history, self.backend)
        self.last_poll = self.clock

    def ask_the_witness(self) -> None:
        """As the poller does where nothing moves."""
        if self.history.failure is not None or self.history.moved or not self.server.development:
            return
        paused = None
        if not self.witness_fails:
            paused = any(engine.paused for engine in self.server.engines.values())
            for engine in self.server.engines.values():
                engine.seen_paused = engine.seen_paused or paused
        self.history = told_of_pause(self.history, paused=paused, at=self.clock)

    def look_and_fail(self, kind: Trouble) -> None:
        self.hear()
        began = self.clock
        self.let_pass(TIMEOUT if kind is Trouble.TIMEOUT else 0.01)
        self.remember(Look(began, self.clock, Failure(kind, "failed")))

    @rule(before=READ_TIMES, behind=READ_TIMES)
    def look(self, before: float, behind: float) -> None:
        """A read; the page is made ``before`` seconds after it began."""
        self.look_at(before, behind, None)

    def look_at(self, before: float, behind: float, spoilt: dict[str, str] | None) -> None:
        self.hear()
        began = self.clock
        self.let_pass(before)
        reading = self.server.reading(spoilt)
        self.let_pass(min(behind, TIMEOUT - min(before, TIMEOUT)))
        self.remember(Look(began, self.clock, reading))

    @rule(before=READ_TIMES, spoilt=SPOILT)
    def look_at_a_bad_page(self, before: float, spoilt: dict[str, str]) -> None:
        self.look_at(before, 0.0, spoilt)

    @rule(looks=st.sampled_from([2, 9, 10, 20]), spoilt=st.none() | SPOILT)
    def look_at_the_interval(self, looks: int, spoilt: dict[str, str] | None) -> None:
        for _ in range(looks):
            self.let_pass(max(0.0, self.last_poll + INTERVAL - self.clock))
            self.look_at(0.01, 0.01, spoilt)
            self.never_stuck()

    @rule(kind=FAILURES)
    def fail(self, kind: Trouble) -> None:
        self.look_and_fail(kind)

    @rule(looks=st.integers(1, 8))
    def time_out(self, looks: int) -> None:
        for _ in range(looks):
            self.look_and_fail(Trouble.TIMEOUT)
            self.let_pass(INTERVAL - TIMEOUT)

    @rule(
        seconds=st.sampled_from([0.1, 1.0, INTERVAL, 2 * INTERVAL, WAIT, 2 * WAIT, 40 * INTERVAL])
    )
    def nobody_looks(self, seconds: float) -> None:
        self.let_pass(seconds)

    @rule(seconds=st.sampled_from([1.0, INTERVAL, WAIT, 3 * WAIT]))
    def our_clock_stands_still(self, seconds: float) -> None:
        self.let_pass(seconds, clock=False)

    @rule(before=st.sampled_from([100.0, 1000.0]), behind=st.sampled_from([0.0, 100.0, 1000.0]))
    def we_are_stopped_in_the_middle_of_a_read(self, before: float, behind: float) -> None:
        self.hear()
        began = self.clock
        self.let_pass(before)
        reading = self.server.reading()
        self.let_pass(behind)
        self.remember(Look(began, self.clock, reading))

    @precondition(lambda self: self.judgement is not None)
    @rule()
    def we_are_restarted(self) -> None:
        self.history = History()
        self.judgement = None
        for engine in self.server.engines.values():
            engine.forget_ours()
        self.open = {}
        self.ends = []

    # the promise

    @invariant()
    def never_stuck(self) -> None:
        for name, engine in self.history.engines.items():
            self.longest_quiet = max(self.longest_quiet, engine.quiet.seconds)
            assert engine.quiet.seconds < 2 * WAIT, (name, engine)
        if self.judgement is not None:
            verdicts = (self.judgement.backend, *self.judgement.engines.values())
            assert State.STUCK not in {verdict.state for verdict in verdicts}

    def teardown(self) -> None:
        # Let the search go where silence gets long.
        target(self.longest_quiet)


TestWatch = Watch.TestCase
TestWatch.settings = settings(
    max_examples=400,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
