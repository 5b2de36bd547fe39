"""A vLLM server under a virtual clock: engines, an API process, what befalls them, the truth."""

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

from benchmarks.tournament.any_engine import AnyEngine
from benchmarks.tournament.engine import Engine
from benchmarks.tournament.event import Event, HangKind, Happening, Spec
from benchmarks.tournament.job import Job
from benchmarks.tournament.page import text
from benchmarks.tournament.published import Published
from benchmarks.tournament.seen import ENGINE_DEAD, FIRST_START, REFUSED, TIMEOUT, Ticket
from fleet.fetch import Failure
from fleet.reading import Reading

# One page of so many is written out and parsed, and must give the same reading.
WRITTEN_OUT = 997
SLOW_RETRY, QUICK_RETRY = 120.0, 60.0
WITHIN = 5.0
JUST_BEFORE = 1.0


@dataclass(frozen=True)
class Hang:
    """A hang that lasts, and since when."""

    kind: HangKind
    since: float


class Server:
    """One server. Methods see it through ``benchmarks.tournament.seen.Seen``; the rest is truth.

    ``hang``: what it hangs in, None while it is healthy. ``lost``: requests that restarts killed in
    the middle of their work. ``sent_to_busy``: requests of the method that came to a healthy engine
    with anything running or waiting that a page shows (the one read just before, if any was),
    ``sent_to_unseen`` those that came in the first step of an engine that was idle before, which no
    page shows until it is over, and ``sent_to_hung`` those that came to one that hung.
    ``over``: whether nothing is known of what follows, which happens to recordings only.
    """

    def __init__(
        self, spec: Spec, make: Callable[[Spec, float, Published | None], AnyEngine] | None = None
    ) -> None:
        self.spec = spec
        self.hang: Hang | None = None
        self.lost = self.sent_to_busy = self.sent_to_unseen = self.sent_to_hung = 0
        self.over = False
        self.process = 0
        self.up_at = 0.0
        self.dead = False
        self._make = make or _leaping
        self._random = random.Random(spec.seed)  # noqa: S311 -- a simulation
        self._order = count()
        self._names = count()
        self._events = [(event.at, next(self._order), event) for event in spec.events]
        heapq.heapify(self._events)
        self._muted_until = 0.0
        self._paused = False
        self._tickets: list[Ticket] = []
        self._pages = 0
        self._read = (-math.inf, Reading())
        self._start_time = float(FIRST_START)
        self.engines = [self._engine(0.0, None) for _ in range(spec.ranks)]

    # what methods see

    def metrics(self, now: float, timeout: float) -> Reading | Failure:
        """GET /metrics."""
        at = self._reached(now, timeout)
        if isinstance(at, Failure):
            return at
        spec = self.spec
        engines = {}
        for number, engine in enumerate(self.engines):
            engine.advance(at)
            engines[str(number)] = engine.reading(
                gauges_absent=not spec.has_start_time, reasons=spec.tells_reasons
            )
        reading = Reading(
            self._start_time if spec.has_start_time else None, MappingProxyType(engines)
        )
        self._read = (now, reading)
        self._pages += 1
        if self._pages % WRITTEN_OUT == 1 and Reading.from_page(text(reading)) != reading:
            raise AssertionError(f"{spec.name}: the page and the reading differ: {reading}")
        return reading

    def health(self, now: float, timeout: float) -> Failure | None:
        """GET /health: it looks at nothing but whether the engine's process is there."""
        at = self._reached(now, timeout)
        if isinstance(at, Failure):
            return at
        return ENGINE_DEAD if self.dead else None

    def is_paused(self, now: float) -> bool | None:
        """GET /is_paused: an engine that hangs does not answer."""
        self.catch_up(now)
        return self._paused if self.spec.developer_mode and self.hang is None else None

    def send(self, now: float, engine: str | None, prompt: int, target: int) -> Ticket | Failure:
        """POST a request; while the API process is busy it gets in only afterwards."""
        self.catch_up(now)
        if now < self.up_at:
            return REFUSED
        if self.dead:
            return ENGINE_DEAD
        at = max(now, self._muted_until)
        for each in self.engines:
            each.advance(now)
        number = self._least_busy() if engine is None else int(engine)
        if self.hang is not None:
            self.sent_to_hung += 1
        elif self.engines[number].busy:
            # In the first step of all that it has to do nothing is written yet.
            if self.engines[number].shows_work and self._was_shown(number, now):
                self.sent_to_busy += 1
            else:
                self.sent_to_unseen += 1
        ticket = Ticket(Job(f"method-{next(self._names)}", prompt, target), number)
        self.engines[number].submit(ticket.job, at)
        self._tickets.append(ticket)
        return ticket

    def _was_shown(self, number: int, now: float) -> bool:
        """Whether the page that was read just before shows work; true where none was read."""
        read_at, reading = self._read
        return now - read_at > JUST_BEFORE or reading.engines[str(number)].anything_pending

    def answered_at(self, ticket: Ticket, now: float) -> float | None:
        """When its last token came, if it has by ``now``."""
        self.catch_up(now)
        if ticket.error_at is None:
            self.engines[ticket.engine].advance(now)
        done = ticket.job.done_at
        return done if done is not None and done <= now else None

    def abandon(self, ticket: Ticket, now: float) -> None:
        """The client hangs up."""
        self.catch_up(now)
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            if ticket.job.done_at is None:
                self.engines[ticket.engine].abort(ticket.job, now)

    # what happens

    def restart(self, now: float) -> None:
        """Stop the process and start another, which answers after ``load_seconds``."""
        self.catch_up(now)
        self._restart(now)

    def catch_up(self, now: float) -> None:
        """Let everything happen that is due by ``now``."""
        while self._events and self._events[0][0] <= now:
            at, _, event = heapq.heappop(self._events)
            if event.process in (None, self.process):
                self._happen(event, at)
            elif event.what is Happening.FREEZE:
                # Somebody restarted it first: it hangs another time.
                self._again(event._replace(what=Happening.HANG, process=None), at + SLOW_RETRY)

    def _happen(self, event: Event, at: float) -> None:
        serves = at >= self.up_at and not self.dead
        whole = serves and self.hang is None and not self._paused and self.engines[0].awake
        match event.what:
            case Happening.REQUEST:
                closed = self.hang is not None and self.hang.kind is HangKind.DEADLOCK
                if serves and not closed:
                    self._arrive(event, at)
            case Happening.HANG:
                self._hang(event, at) if whole else self._again(event, at + SLOW_RETRY)
            case Happening.FREEZE:
                self._freeze(event, at)
            case Happening.WAKE | Happening.RESUME:
                if self.hang is None:
                    self._go_on(at)
            case _:
                self._befall(event, at, whole=whole)

    def _befall(self, event: Event, at: float, *, whole: bool) -> None:
        """What passes; ``whole``: it serves, and nothing else has befallen it."""
        match event.what:
            case Happening.COMPILE:
                for engine in self.engines:
                    engine.compile(event.seconds)
            case Happening.API_GC:
                self._muted_until = max(self._muted_until, at + event.seconds)
            case Happening.ENGINE_GC if whole:
                for engine in self.engines:
                    engine.pause(event.seconds, at)
            case Happening.RESTART if whole:
                self._restart(at)
            case Happening.SLEEP | Happening.PAUSE if whole:
                self._stop(event, at)
            case _:
                pass

    def _arrive(self, event: Event, at: float) -> None:
        engine = self.engines[event.engine % len(self.engines)]
        job = Job(f"client-{next(self._names)}", event.prompt, event.target, event.deferred)
        engine.submit(job, at)
        if event.seconds:
            engine.abort(job, at + event.seconds)

    def _stop(self, event: Event, at: float) -> None:
        sleeps = event.what is Happening.SLEEP
        for engine in self.engines:
            engine.freeze(at)
            engine.awake = not sleeps
        self._paused = not sleeps
        over = Happening.WAKE if sleeps else Happening.RESUME
        self._again(Event(0.0, over, process=self.process), at + event.seconds)

    def _go_on(self, at: float) -> None:
        for engine in self.engines:
            engine.thaw(at)
            engine.awake = True
        self._paused = False

    def _hang(self, event: Event, at: float) -> None:
        long = Event(at, Happening.REQUEST, prompt=500, target=4000)
        after = self._random.uniform(2.0, WITHIN)
        match event.hang:
            case HangKind.IDLE:
                for engine in self.engines:
                    engine.advance(at)
                if any(engine.busy for engine in self.engines):
                    self._again(event, at + QUICK_RETRY)
                    return
                after = 0.0
            case HangKind.AFTER_RESTART:
                self._restart(at)
                self._again(long, self.up_at + 0.5)
                after = self.up_at - at + self._random.uniform(1.0, 60.0)
            case HangKind.PREFILL:
                pace = self.spec.pace
                longest = (pace.num_gpu_blocks - 1) * pace.block_size // 2
                tokens = min(longest, int(pace.prefill_tokens_per_second * 60))
                self._arrive(long._replace(prompt=tokens, target=20), at)
            case HangKind.DEADLOCK | HangKind.DEADLOCK_ARRIVALS:
                for _ in range(self.spec.pace.max_num_seqs + 4):
                    self._arrive(long, at)
            case _:
                for rank in range(self.spec.ranks):
                    self._arrive(long._replace(engine=rank), at)
                    self._arrive(long._replace(engine=rank), at)
        self._again(event._replace(what=Happening.FREEZE, process=self.process), at + after)

    def _freeze(self, event: Event, at: float) -> None:
        kind = event.hang
        assert kind is not None  # noqa: S101 -- so made by _hang
        self.hang = Hang(kind, at)
        hung = self.engines[:1] if kind is HangKind.ONE_RANK else self.engines
        for engine in hung:
            engine.awake = True
            if kind in (HangKind.DEADLOCK, HangKind.DEADLOCK_ARRIVALS):
                # The clients that are there wait for ever, or give up in time.
                engine.deadlock(at, patient=kind is HangKind.DEADLOCK)
            else:
                engine.freeze(at)
        self._paused = False
        self.dead = kind is HangKind.DEAD
        if kind is HangKind.IDLE:
            self._again(Event(0.0, Happening.REQUEST, prompt=300, target=200), at + 30.0)

    def _again(self, event: Event, at: float) -> None:
        heapq.heappush(self._events, (at, next(self._order), event._replace(at=at)))

    def _restart(self, now: float) -> None:
        for engine in self.engines:
            engine.advance(now)
        self.lost += sum(engine.at_work for engine in self.engines)
        for ticket in self._tickets:
            ticket.error_at = now
        self._tickets = []
        left = [engine.published for engine in self.engines]
        self.process += 1
        self.up_at = now + self.spec.load_seconds
        self.hang = None
        self.dead = self._paused = False
        self._muted_until = 0.0
        self._start_time = FIRST_START + round(now)
        keeps = not (self.spec.has_start_time or self.spec.wiped)
        self.engines = [self._engine(self.up_at, page if keeps else None) for page in left]

    def _engine(self, ready_at: float, before: Published | None) -> AnyEngine:
        engine = self._make(self.spec, ready_at, before)
        if self.spec.first_step:
            engine.compile(self.spec.first_step)
        return engine

    def _least_busy(self) -> int:
        loads = [engine.at_work for engine in self.engines]
        return loads.index(min(loads))

    def _reached(self, now: float, timeout: float) -> float | Failure:
        """When the API process gets to a request that is sent now."""
        self.catch_up(now)
        if now < self.up_at:
            return REFUSED
        if self._muted_until - now > timeout:
            return TIMEOUT
        return max(now, self._muted_until)


def _leaping(spec: Spec, ready_at: float, before: Published | None) -> AnyEngine:
    return Engine(spec.pace, ready_at=ready_at, keeps_gauges=spec.keeps_gauges, before=before)
