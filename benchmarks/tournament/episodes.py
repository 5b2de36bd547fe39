"""Every method at one real vLLM at the same time, through what is known to be a hang and what not.

Time is scaled (``benchmarks.tournament.real``). All methods share the server: a call for a restart
is written down, the method starts afresh, and the server goes on; it is really restarted when it
was frozen, once the episode is over.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

from benchmarks.tournament.event import HangKind
from benchmarks.tournament.method import Method
from benchmarks.tournament.methods.lifeguard import Lifeguard, LifeguardAlert
from benchmarks.tournament.posted import Posted
from benchmarks.tournament.real import SCALE, Clock, RealServer, pending
from benchmarks.tournament.score import table
from benchmarks.tournament.watch import Frozen, Tally, Truth, Watch
from demo.child import free_ports
from fleet.reading import Reading
from tests.real import vllm_environment
from tests.real.vllm_server import READY_SECONDS, Server, freeze, restart, start, stop, wait_ready

SLOTS = 4
FLAGS = ("--max-num-batched-tokens", "256")
SETTLED_SECONDS = 60.0
# How long each lasts, in real seconds. The chat request needs five misses: 125 s of a full server.
IDLE_SECONDS = 58.0
BATCH_SECONDS = 140.0
PREFILL_SECONDS_AT_MOST = 240.0
HEALTHY_BEFORE_A_HANG = 15.0
CLIENTS_COME_AFTER = 20.0
HUNG_SECONDS = 90.0
# In virtual seconds, from a hang to the fifth miss, which it is not given here.
CHAT_NEEDS = "1,200 to 1,545"
SEED = 20261130
# More than any of these episodes lasts.
LONG = 20_000
QUEUED = 8
PREFILL_TOKENS = 26_000
ORDINARY_TOKENS = range(10, 290)

HANGS = (HangKind.RUNNING, HangKind.IDLE)
IDLE, BATCH, PREFILL, STREAMS = "idle", "batch", "long prefill", "streams"
HEALTHY = (IDLE, BATCH, PREFILL, STREAMS)
HEADINGS = (
    "method",
    *(f"false calls: {name}" for name in HEALTHY),
    *(f"s to call: {kind}" for kind in HANGS),
    "requests to a busy server",
)

Say = Callable[[str], None]


class Episodes:
    """The server, the clock, and a watch for each method."""

    def __init__(self, server: Server, methods: Sequence[Callable[[], Method]], say: Say) -> None:
        self._server = server
        self._say = say
        self._random = Random(SEED)  # noqa: S311 -- any token ids will do
        self._clock = Clock()
        self._page = RealServer(server.url, self._clock)
        self._truth = Truth()
        self._watches = [
            Watch(method(), server.url, self._clock, self._truth) for method in methods
        ]
        self._clients: list[Posted] = []

    def played(self) -> dict[str, Tally]:
        """Play all of them; the tallies in the order of the methods, alerts behind."""
        try:
            self._restart(start)
            self._idle()
            self._batch()
            self._prefill()
            self._frozen_with_requests()
            self._restart(restart)
            self._frozen_while_idle()
        finally:
            self._leave()
            for watch in self._watches:
                watch.close()
            self._page.close()
        tallies = {}
        for watch in self._watches:
            tallies[watch.method.name] = watch.calls
            if isinstance(watch.method, Lifeguard):
                tallies[LifeguardAlert.name] = watch.alerts
        return tallies

    def _idle(self) -> None:
        with self._watched(IDLE):
            time.sleep(IDLE_SECONDS)

    def _batch(self) -> None:
        self._come(SLOTS + QUEUED, LONG)
        with self._watched(BATCH):
            time.sleep(BATCH_SECONDS)
        self._leave()

    def _prefill(self) -> None:
        began = time.monotonic()
        prompt = self._random.choices(ORDINARY_TOKENS, k=PREFILL_TOKENS)
        request = Posted(self._server.url, prompt, 1)
        self._clients.append(request)
        with self._watched(PREFILL):
            request.ended.wait(PREFILL_SECONDS_AT_MOST)
        if not request.whole:
            raise RuntimeError(f"a prompt of {PREFILL_TOKENS} tokens was not answered")
        self._say(f"{PREFILL_TOKENS} tokens of prompt were read for {_since(began):.0f} real s")
        self._leave()

    def _frozen_with_requests(self) -> None:
        self._come(SLOTS - 1, LONG)
        with self._watched(STREAMS):
            time.sleep(HEALTHY_BEFORE_A_HANG)
            self._freeze(HangKind.RUNNING)
            time.sleep(HUNG_SECONDS)

    def _frozen_while_idle(self) -> None:
        with self._watched(IDLE):
            time.sleep(HEALTHY_BEFORE_A_HANG)
            self._freeze(HangKind.IDLE)
            time.sleep(CLIENTS_COME_AFTER)
            for _ in range(SLOTS - 1):
                self._clients.append(self._request(LONG))
            time.sleep(HUNG_SECONDS - CLIENTS_COME_AFTER)

    @contextmanager
    def _watched(self, episode: str) -> Iterator[None]:
        """Let every method watch, each in a thread of its own; what one raises is raised here."""
        self._say(f"{episode}")
        self._truth.episode, self._truth.hang = episode, None
        stop, before = threading.Event(), [watch.calls.false.total() for watch in self._watches]
        with ThreadPoolExecutor(len(self._watches)) as pool:
            watching = [pool.submit(watch.run, stop) for watch in self._watches]
            try:
                yield
            finally:
                stop.set()
        for each in watching:
            each.result()
        for watch, called in zip(self._watches, before, strict=True):
            if watch.calls.false.total() > called:
                self._say(f"  false: {watch.method.name}")

    def _freeze(self, kind: HangKind) -> None:
        freeze(self._server)
        self._truth.hang = Frozen(kind, self._clock.now())
        self._say(f"{kind}")

    def _restart(self, act: Callable[[Server], int]) -> None:
        self._leave()
        self._truth.hang = None
        act(self._server)
        wait_ready(self._server.url, time.monotonic() + READY_SECONDS)
        # The first request to a process is slower than the rest; no method is to be judged by it.
        self._request(1).ended.wait(SETTLED_SECONDS)
        self._until(lambda reading: not pending(reading))
        for watch in self._watches:
            watch.restarted()

    def _come(self, clients: int, target: int) -> None:
        self._clients += [self._request(target) for _ in range(clients)]
        running = float(min(clients, SLOTS))
        self._until(
            lambda reading: any((e.running or 0) >= running for e in reading.engines.values())
        )

    def _request(self, target: int) -> Posted:
        return Posted(self._server.url, self._random.choices(ORDINARY_TOKENS, k=5), target)

    def _leave(self) -> None:
        """Let all clients hang up; where the engine runs, wait until nothing is pending."""
        for request in self._clients:
            request.hang_up()
        left, self._clients = self._clients, []
        if left and self._truth.hang is None:
            self._until(lambda reading: not pending(reading))

    def _until(self, holds: Callable[[Reading], bool]) -> None:
        deadline = time.monotonic() + SETTLED_SECONDS
        while True:
            reading = self._page.metrics(0.0, SETTLED_SECONDS)
            if isinstance(reading, Reading) and holds(reading):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._server.url}: the page does not show it: {reading}")
            time.sleep(0.1)


def play_for_real(
    folder: Path, methods: Sequence[Callable[[], Method]], say: Say
) -> dict[str, Tally]:
    """Start a real vLLM in ``folder``, play, and stop it."""
    vllm_environment.make(say=say)
    server = Server(folder, free_ports(1)[0], FLAGS)
    try:
        return Episodes(server, methods, say).played()
    finally:
        stop(server)


def real_table(tallies: dict[str, Tally]) -> str:
    """A title that says what was scaled, and a row for each method."""
    hung = HUNG_SECONDS * SCALE
    title = (
        f"The same methods at a real vLLM {vllm_environment.VLLM}, all at one server at the same "
        f"time.\nTime is scaled, because a run at full length would take hours: a method's second "
        f"is 1/{SCALE:g} of a\nreal one, the server is as fast as it is. A hang is watched for "
        f"{hung:.0f} of these\nseconds; the chat request needs {CHAT_NEEDS} for its five misses."
    )
    return f"{title}\n\n{table([_row(*each) for each in tallies.items()], HEADINGS)}"


def real_result(tally: Tally) -> str:
    """What the RESULT line says of ours."""
    return (
        f"vllm_lifeguard_false={tally.false.total()} "
        f"vllm_lifeguard_missed={tally.missed(HANGS)} "
        f"vllm_lifeguard_busy_requests={tally.sent_to_busy}"
    )


def _row(name: str, tally: Tally) -> tuple[str, ...]:
    found = (
        f"{tally.found[kind]:.0f}{' (a person)' if kind in tally.told else ''}"
        if kind in tally.found
        else "not called"
        for kind in HANGS
    )
    return (name, *(str(tally.false[each]) for each in HEALTHY), *found, str(tally.sent_to_busy))


def _since(began: float) -> float:
    return time.monotonic() - began
