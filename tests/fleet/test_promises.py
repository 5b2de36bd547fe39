"""A hang is found in time, and what one engine does is never held against another."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.asking import engines_to_ask
from fleet.answer import Answer, Result
from fleet.backend import Backend
from fleet.fetch import Failure, Trouble
from fleet.history import History, Look, after, asking, heard
from fleet.judgement import judge
from fleet.state import State
from tests.fleet.model import Engine, Server
from tests.fleet.pages import page
from tests.fleet.watching import backend

INTERVAL = 15.0
WAIT = 60.0
READ = 0.02
# A hang may begin just after a look, and be proven just after another.
LOOKS_OF_PROOF = int(2 * WAIT / INTERVAL) + 2


class Watch:
    """Looks at a server at the interval, and asks it, as a poller does."""

    def __init__(self, server: Server, of: Backend) -> None:
        self.server = server
        self.backend = of
        self.history = History()
        self.now = 1000.0

    def look(self, result: Failure | None = None) -> None:
        """One poll, and the time until the next."""
        began = self.now
        look = Look(began, began + READ, result or self.server.reading())
        self.history = after(self.history, look, interval=INTERVAL, warm_up=self.backend.warm_up)
        self.now = began + INTERVAL

    def state(self) -> State:
        return judge(self.history, self.backend).engines["0"].state


DOINGS = st.sampled_from(["arrive", "work", "prefill", "finish", "preempt", "look", "look"])
FAILURES = st.lists(st.booleans(), max_size=20).map(
    # Never blind for five intervals: that starts the counting afresh.
    lambda some: [fails and i % 4 != 0 for i, fails in enumerate(some)]
)


def do(engine: Engine, doing: str, watch: Watch) -> None:
    match doing:
        case "arrive":
            engine.arrive(watch.now)
        case "work" | "prefill":
            engine.work(watch.now, prefill=doing == "prefill")
        case "finish":
            engine.finish(watch.now)
        case "preempt":
            engine.preempt()
        case _:
            watch.look()


@given(
    doings=st.lists(DOINGS, max_size=60),
    failures=FAILURES,
    start_time=st.sampled_from([1000.0, None]),
    arrivals=st.lists(st.booleans(), max_size=20),
)
@settings(max_examples=300, deadline=None)
def test_a_hang_with_pending_work_is_found_within_two_waits_and_two_intervals_of_good_reads(
    doings: list[str], failures: list[bool], start_time: float | None, arrivals: list[bool]
) -> None:
    server = Server(start_time=start_time)
    watch = Watch(server, backend(WAIT))
    engine = server.engines["0"]
    watch.look()
    # In multiprocess mode only an engine that was seen to work can be told from a left-over page.
    for doing in ["arrive", "work", "work", "look", *doings, "arrive", "work", "work"]:
        do(engine, doing, watch)
    watch.look()
    engine.frozen = True
    good, states = 0, []
    for fails, arrives in itertools.zip_longest(failures, arrivals, fillvalue=False):
        if arrives:
            engine.arrive(watch.now)
        if fails:
            watch.look(Failure(Trouble.TIMEOUT, "failed"))
        else:
            watch.look()
            # Only the time between two good reads in a row is watched time.
            good += watch.history.engines["0"].over < 1.5 * INTERVAL
            states.append(watch.state())
    for _ in range(max(0, LOOKS_OF_PROOF - good)):
        watch.look()
        states.append(watch.state())
    assert states[-1] is State.STUCK


@given(doings=st.lists(DOINGS, max_size=40), start_time=st.sampled_from([1000.0, None]))
@settings(max_examples=200, deadline=None)
def test_a_hang_while_idle_is_found_two_waits_after_the_short_request(
    doings: list[str], start_time: float | None
) -> None:
    server = Server(start_time=start_time)
    watch = Watch(server, backend(WAIT))
    engine = server.engines["0"]
    watch.look()
    for doing in ["arrive", "work", "work", "look", *doings]:
        do(engine, doing, watch)
    while engine.running or engine.waiting:
        engine.work(watch.now, prefill=False)
        engine.finish(watch.now)
    watch.look()
    engine.frozen = True
    asked_at = None
    for _ in range(LOOKS_OF_PROOF + int(WAIT / INTERVAL) + 2):
        watch.look()
        for name in engines_to_ask(watch.history, watch.backend, watch.now, 300.0):
            watch.history = asking(watch.history, name, watch.now)
            engine.ask(watch.now)
            asked_at = watch.now
    assert asked_at is not None
    assert watch.state() is State.STUCK
    # Given up after three waits, in which nothing moved, it is no less proof.
    unanswered = Answer(Result.UNANSWERED, 3 * WAIT, "not answered")
    watch.history = heard(watch.history, "0", unanswered, asked_at + 3 * WAIT)
    watch.look()
    assert watch.state() is State.STUCK


VALUES = st.fixed_dictionaries(
    {
        "running": st.integers(0, 2),
        "waiting": st.integers(0, 2),
        "capacity": st.integers(0, 1),
        "kv": st.sampled_from([0.0, 0.1, 0.2]),
        "awake": st.sampled_from([1, 1, 1, 0]),
    }
)
RISES = st.sampled_from([0, 0, 0, 1])


@dataclass
class ToldServer(Server):
    """Shows the engines that it is told to show, whatever its own do."""

    shown: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def text(self, spoilt: Mapping[str, str] | None = None) -> str:
        del spoilt
        return page(self.shown, 1000.0)


@given(
    looks=st.lists(
        st.tuples(VALUES, RISES, VALUES, RISES, st.booleans(), st.integers(0, 9)),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=300, deadline=None)
def test_one_engines_verdict_never_depends_on_what_another_does(
    looks: list[tuple[dict[str, int], int, dict[str, int], int, bool, int]],
) -> None:
    one, both = ToldServer(), ToldServer()
    alone, together = Watch(one, backend(WAIT)), Watch(both, backend(WAIT))
    steps, others = 100, 100
    for values, rise, other_values, other_rise, there, fails in looks:
        steps, others = steps + rise, others + other_rise
        mine = {**values, "steps": steps}
        other = {"1": {**other_values, "steps": others}} if there else {}
        failure = Failure(Trouble.TIMEOUT, "failed") if fails == 0 else None
        one.shown, both.shown = {"0": mine}, {"0": mine, **other}
        alone.look(failure)
        together.look(failure)
        assert together.history.engines.get("0") == alone.history.engines.get("0")
        of_both, of_one = (
            judge(watch.history, watch.backend).engines.get("0") for watch in (together, alone)
        )
        assert of_both == of_one
