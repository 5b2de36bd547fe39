"""``demo.vllm``'s own engine under the tournament's clock, read through its whole page as text."""

import heapq
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

from benchmarks.tournament.event import Spec
from benchmarks.tournament.job import Job, Pace
from benchmarks.tournament.published import Published
from demo.vllm.engine import Engine, EngineState
from demo.vllm.fault import Load
from demo.vllm.limits import Limits
from demo.vllm.page import page
from demo.vllm.settings import Settings
from demo.vllm.template import recorded
from demo.vllm.traffic import Traffic
from fleet.reading import EngineReading, Reading


class SimulatedEngine:
    """One engine of ``demo.vllm`` with the faults a tournament needs. Knows no deadlock."""

    def __init__(self, pace: Pace, ready_at: float = 0.0) -> None:
        self.awake = True
        self.published = Published()
        self._limits = Limits(
            max_num_seqs=pace.max_num_seqs,
            max_num_batched_tokens=pace.max_num_batched_tokens,
            max_model_len=(pace.num_gpu_blocks - 1) * pace.block_size,
            block_size=pace.block_size,
            num_gpu_blocks=pace.num_gpu_blocks,
            steps_per_second=pace.steps_per_second,
            prefill_tokens_per_second=pace.prefill_tokens_per_second,
        )
        self._engine = Engine(self._limits)
        self._page = page(
            recorded(Settings().shape), Settings(limits=self._limits), created=ready_at
        )
        self._order = count()
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._jobs: dict[str, Job] = {}
        self._extra = 0.0
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether it really has anything running or waiting."""
        return self.at_work > 0

    @property
    def at_work(self) -> int:
        """How many requests it really has running or waiting."""
        held = self._engine.occupancy()
        return held.running + held.waiting

    @property
    def shows_work(self) -> bool:
        """Whether a page shows anything of what it has to do now."""
        return self.busy and self.reading(gauges_absent=False, reasons=True).anything_pending

    def submit(self, job: Job, at: float) -> None:
        """A request arrives."""
        self._jobs[job.id] = job
        load = Load(1, job.prompt, job.target, None)
        request = replace(load.request(len(self._jobs)), id=job.id)
        self._at(at, partial(self._engine.submit, request))

    def abort(self, job: Job, at: float) -> None:
        """Nobody waits for this request any more."""
        self._at(at, partial(self._engine.abort, job.id))

    def freeze(self, now: float) -> None:
        """Stop until thawed."""
        self.advance(now)
        self._stopped = True
        self._engine.freeze(now)

    def thaw(self, now: float) -> None:
        """Go on."""
        self._stopped = False
        self._engine.thaw(now)

    def pause(self, seconds: float, now: float) -> None:
        """Stand still for some seconds."""
        self.advance(now)
        self._pause(seconds, now)

    def compile(self, seconds: float) -> None:
        """Make the next step that begins take longer by this much."""
        self._extra = max(self._extra, seconds)

    def deadlock(self, now: float, *, patient: bool) -> None:
        """There is none in ``demo.vllm``."""
        raise NotImplementedError(f"no deadlock at {now}, patient {patient}")

    def advance(self, now: float) -> None:
        """Carry out everything that happens up to ``now``."""
        while True:
            at = min(now, self._due[0][0]) if self._due else now
            begins = self._engine.due()
            if self._extra and begins is not None and begins <= at:
                self._run(begins)
                self._pause(self._extra, begins)
                self._extra = 0.0
                continue
            self._run(at)
            if not self._due or self._due[0][0] > now:
                return
            at, _, act = heapq.heappop(self._due)
            act(at)

    def reading(self, *, gauges_absent: bool, reasons: bool) -> EngineReading:
        """The page's values, by way of its text."""
        del gauges_absent, reasons
        text = self._page.text([self._engine.published()], Traffic().tallied(), "")
        return replace(Reading.from_page(text).engines["0"], awake=self.awake)

    def _at(self, at: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (at, next(self._order), act))

    def _pause(self, seconds: float, now: float) -> None:
        if self._engine.state is EngineState.ALIVE:
            self._engine.freeze(now)
            self._at(now + seconds, self._resume)

    def _resume(self, at: float) -> None:
        if not self._stopped:
            self._engine.thaw(at)

    def _run(self, now: float) -> None:
        for output in self._engine.advance(now):
            if output.finish:
                self._jobs[output.request_id].done_at = output.at


def simulated(spec: Spec, ready_at: float, before: Published | None) -> SimulatedEngine:
    """A fresh engine of a server that is run on ``demo.vllm``."""
    del before
    return SimulatedEngine(spec.pace, ready_at)
