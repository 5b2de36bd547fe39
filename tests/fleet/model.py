"""A model of vLLM as the page shows it, on a virtual clock: what it does and what it publishes.

Gauges and counters are written at the end of a step, so what the page shows is as old as the last
step; requests that arrive show only then. Whatever it does that is work changes the page: a counter
rises, or KV usage grows by a block.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.reading import Reading
from tests.fleet.pages import page

BLOCKS = 1000


@dataclass
class Engine:
    """One engine. ``waiting`` and ``running`` are true, ``published`` is what the page shows.

    ``waiting`` is for capacity, ``deferred`` for something outside. ``ours``: our short request is
    in its hands. ``pending_since``: since when it has had something to do without doing any of it.
    """

    running: int = 0
    waiting: int = 0
    deferred: int = 0
    blocks: int = 0
    steps: int = 0
    generated: int = 0
    prompt: int = 0
    queries: int = 0
    preemptions: int = 0
    awake: bool = True
    paused: bool = False
    ours: bool = False
    frozen: bool = False
    seen_asleep: bool = False
    seen_paused: bool = False
    pending_since: float | None = None
    published: dict[str, float] = field(default_factory=dict)

    def publish(self) -> None:
        """Write the page's series, as the end of a step does."""
        self.published = {
            "running": self.running,
            "waiting": self.waiting + self.deferred,
            "capacity": self.waiting,
            "deferred": self.deferred,
            "kv": self.blocks / BLOCKS,
            **self.counters(),
        }

    def counters(self) -> dict[str, float]:
        """The series that are there from the start, also in multiprocess mode."""
        return {
            "steps": self.steps,
            "generated": self.generated,
            "prompt": self.prompt,
            "queries": self.queries,
            "preemptions": self.preemptions,
            "awake": int(self.awake),
        }

    @property
    def owes(self) -> bool:
        """Whether it has something to do, held by somebody or not."""
        return self.awake and (self.running > 0 or self.waiting > 0 or self.ours)

    @property
    def pending(self) -> bool:
        """Whether it has something to do and can do it."""
        return self.owes and not self.paused

    @property
    def excused(self) -> bool:
        """Whether it may stand still for as long as it likes: by a pause that could be seen."""
        return self.paused and self.seen_paused

    def arrive(self, now: float) -> None:
        """A client's request arrives; the page does not show it yet."""
        self.waiting += 1
        self._pending_from(now)

    def ask(self, now: float) -> None:
        """Our short request arrives."""
        self.ours = True
        self._pending_from(now)

    def forget_ours(self) -> None:
        """Our short request is gone without having been worked on."""
        self.ours = False
        if not self.owes:
            self.pending_since = None

    def _pending_from(self, now: float) -> None:
        if self.pending_since is None and self.owes:
            self.pending_since = now

    def sleep(self) -> None:
        """Put to sleep in the middle of whatever it does."""
        self.awake = False
        self.seen_asleep = False
        self.published["awake"] = 0

    def wake(self, now: float) -> None:
        """Woken up again; one that is awake stays as it is."""
        if self.awake:
            return
        self.awake = True
        self.published["awake"] = 1
        # A sleep that nobody saw is no excuse for having done nothing.
        if self.seen_asleep or not self.owes:
            self.pending_since = None
        self._pending_from(now)

    def pause(self) -> None:
        """Held by somebody who updates the weights; nothing on the page tells."""
        if not self.paused:
            self.paused, self.seen_paused = True, False

    def resume(self, now: float) -> None:
        """Let go on."""
        if not self.paused:
            return
        self.paused = False
        # As with a sleep: a pause that nobody could see is no excuse.
        if self.seen_paused or not self.owes:
            self.pending_since = None
        self._pending_from(now)

    def work(self, now: float, *, prefill: bool) -> bool:
        """One step's work, published; returns whether our short request was answered in it."""
        if self.frozen or not self.pending:
            return False
        answered = self.ours
        if self.waiting > 0:
            self.waiting -= 1
            self.running += 1
            self.queries += 16
            self.blocks += 1
        elif prefill and self.running > 0 and self.blocks < BLOCKS:
            self.blocks += 1
        else:
            self.steps += 1
            self.generated += max(1, self.running)
            self.prompt += 1
        if self.ours:
            self.ours = False
            self.steps += 1
            self.generated += 1
            self.queries += 1
        self.publish()
        self.pending_since = now if self.pending else None
        return answered

    def finish(self, now: float) -> None:
        """A running request ends or its client hangs up; that takes a step too."""
        if self.frozen or not self.awake or self.paused or self.running == 0:
            return
        self.running -= 1
        self.blocks = 0 if self.running == 0 else max(1, self.blocks - 3)
        self.publish()
        self.pending_since = now if self.pending else None

    def defer(self) -> None:
        """A request arrives that waits for something outside, a remote KV cache perhaps."""
        if not self.frozen and self.awake and not self.paused:
            self.deferred += 1
            self.publish()

    def undefer(self, now: float) -> None:
        """What they waited for has come."""
        if not self.frozen and self.awake and not self.paused and self.deferred:
            self.waiting += self.deferred
            self.deferred = 0
            self.publish()
            self._pending_from(now)

    def preempt(self) -> None:
        """A running request is put back: a living loop, but no work."""
        if self.frozen or not self.awake or self.paused or self.running == 0:
            return
        self.running -= 1
        self.waiting += 1
        self.preemptions += 1
        self.blocks = max(0, self.blocks - 2)
        self.publish()


@dataclass
class Server:
    """Engines behind one API server process.

    ``start_time`` is None in multiprocess mode; there ``wiped`` says whether the folder of metrics
    is wiped at a start. If it is not, a new process shows its predecessor's page and counts on.
    ``development``: it can be paused, and says so when asked.
    """

    names: tuple[str, ...] = ("0",)
    start_time: float | None = 1000.0
    wiped: bool = True
    up: bool = True
    development: bool = False
    engines: dict[str, Engine] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.engines:
            self._fresh()

    def _fresh(self) -> None:
        for name in self.names:
            engine = Engine()
            if self.start_time is None:
                engine.published = engine.counters()
            else:
                engine.publish()
            self.engines[name] = engine

    def restart(self) -> None:
        """Stop and come back as a new process. What was in flight is lost."""
        if self.start_time is not None:
            self.start_time += 1000.0
        before = self.engines
        self.engines = {}
        self._fresh()
        if self.start_time is None and not self.wiped:
            for name, old in before.items():
                engine = self.engines[name]
                engine.published = {**old.published, "awake": 1}
                for counter in ("steps", "generated", "prompt", "queries", "preemptions"):
                    setattr(engine, counter, getattr(old, counter))

    def text(self, spoilt: Mapping[str, str] | None = None) -> str:
        """The page now; ``spoilt`` replaces parts of it, as a bad line would."""
        text = page(
            {name: engine.published for name, engine in self.engines.items()}, self.start_time
        )
        for old, new in (spoilt or {}).items():
            text = text.replace(old, new)
        return text

    def reading(self, spoilt: Mapping[str, str] | None = None) -> Reading:
        """The page now, as a reading; whoever sleeps is seen to."""
        for engine in self.engines.values():
            engine.seen_asleep = engine.seen_asleep or not engine.awake
        return _read(self.text(spoilt))


@functools.lru_cache(maxsize=1000)
def _read(text: str) -> Reading:
    return Reading.from_page(text)
