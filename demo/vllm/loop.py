"""I/O: drives the engines by the clock and hands their outputs to whoever waits for them."""

import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from queue import SimpleQueue

from demo.vllm.engine import Engine, Occupancy
from demo.vllm.fault import Die, Fault, Freeze, Load, Slow, Thaw
from demo.vllm.request import Output, Request
from demo.vllm.tally import Published

# Behind by more than this, the process did not run: its engines did not work in that time either.
STALL_SECONDS = 2.0


class End(Enum):
    """Why no more outputs come."""

    CLIENT_GONE = auto()
    ENGINE_DEAD = auto()
    SERVER_STOPPED = auto()


class Stream:
    """The outputs of one request, in order, for one thread to take."""

    def __init__(self, engine: int, request_id: str) -> None:
        self.engine = engine
        self.request_id = request_id
        self._items: SimpleQueue[Output | End] = SimpleQueue()

    def take(self) -> Output | End:
        """Wait for the next output, or the end."""
        return self._items.get()

    def put(self, item: Output | End) -> None:
        """Give the waiting thread something."""
        self._items.put(item)


class EngineLoop:
    """A thread that sleeps until an engine has something to do."""

    def __init__(
        self, engines: Sequence[Engine], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engines = engines
        self._clock = clock
        self._changed = threading.Condition()
        self._streams: dict[str, Stream] = {}
        self._loaded = 0
        self._dead = self._stopped = False
        self._thread = threading.Thread(target=self._run, name="engines", daemon=True)

    def start(self) -> None:
        """Begin to step."""
        self._thread.start()

    def stop(self) -> None:
        """End all streams, then the thread."""
        with self._changed:
            self._stopped = True
            self._end_streams(End.SERVER_STOPPED)
            self._changed.notify()
        self._thread.join()

    @property
    def dead(self) -> bool:
        """Whether the engines were killed."""
        return self._dead

    def submit(self, request: Request, engine: int | None = None) -> Stream:
        """Hand over a request, to the engine with the fewest open ones unless one is chosen."""
        with self._changed:
            stream = Stream(self._least_busy() if engine is None else engine, request.id)
            if self._dead or self._stopped:
                stream.put(End.ENGINE_DEAD if self._dead else End.SERVER_STOPPED)
                return stream
            self._engines[stream.engine].submit(request, self._clock())
            self._streams[request.id] = stream
            self._changed.notify()
            return stream

    def abort(self, stream: Stream) -> None:
        """Nobody waits for this stream any more."""
        with self._changed:
            if self._streams.pop(stream.request_id, None):
                self._engines[stream.engine].abort(stream.request_id, self._clock())
                self._changed.notify()

    def act(self, fault: Fault) -> None:
        """Do this to the engines; ValueError if a request of it is too long for them."""
        with self._changed:
            now = self._clock()
            self._advance(now)
            match fault:
                case Die():
                    self._kill()
                case Load():
                    self._load(fault, now)
                case Freeze(chosen):
                    for engine in self._chosen(chosen):
                        engine.freeze(now)
                case Thaw(chosen):
                    for engine in self._chosen(chosen):
                        engine.thaw(now)
                case Slow(steps_per_second, chosen):
                    for engine in self._chosen(chosen):
                        engine.pace(steps_per_second, now)
                case _:
                    pass
            self._changed.notify()

    def published(self) -> list[Published]:
        """What each engine last wrote."""
        with self._changed:
            return [engine.published() for engine in self._engines]

    def occupancy(self) -> list[Occupancy]:
        """What each engine holds."""
        with self._changed:
            return [engine.occupancy() for engine in self._engines]

    def _run(self) -> None:
        with self._changed:
            while not self._stopped:
                due = min(
                    (at for each in self._engines if (at := each.due()) is not None), default=None
                )
                now = self._clock()
                if due is None or due > now:
                    self._changed.wait(None if due is None else due - now)
                    continue
                self._advance(now)

    def _advance(self, now: float) -> None:
        for engine in self._engines:
            due = engine.due()
            if due is not None and now - due > STALL_SECONDS:
                engine.freeze(due)
                engine.thaw(now)
            for output in engine.advance(now):
                stream = self._streams.get(output.request_id)
                if stream:
                    stream.put(output)
                if output.finish:
                    self._streams.pop(output.request_id, None)

    def _kill(self) -> None:
        self._dead = True
        for engine in self._engines:
            engine.kill()
        self._end_streams(End.ENGINE_DEAD)

    def _load(self, load: Load, now: float) -> None:
        for _ in range(load.requests):
            engine = self._least_busy() if load.engine is None else load.engine
            self._engines[engine].submit(load.request(self._loaded), now)
            self._loaded += 1

    def _end_streams(self, end: End) -> None:
        for stream in self._streams.values():
            stream.put(end)
        self._streams.clear()

    def _least_busy(self) -> int:
        loads = [
            each.running + each.waiting + each.unseen
            for each in (engine.occupancy() for engine in self._engines)
        ]
        return loads.index(min(loads))

    def _chosen(self, engine: int | None) -> Sequence[Engine]:
        return self._engines if engine is None else [self._engines[engine]]
