"""An engine by whole steps, that leaps over steps which are all alike.

It follows the same rules as ``demo.vllm.engine`` (first come first served, chunked prefill, blocks,
preemption of the youngest, gauges written at the end of a step) without token ids, and goes through
an hour of decoding in a few leaps: ten thousand server-hours take minutes. Prompts are all taken to
be different, so nothing is found in a prefix cache. A test compares it with ``demo.vllm``.
"""

import heapq
import math
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from benchmarks.tournament.job import Job, Pace
from benchmarks.tournament.published import Published
from benchmarks.tournament.slots import Slots, Step
from fleet.reading import EngineReading


class _HangUp(NamedTuple):
    job: Job


class Engine:
    """Clock and page values of one engine. Times are seconds and never go backwards.

    ``keeps_gauges``: as in older releases, the gauges keep their last values when the clients of
    all requests have hung up, until the next step. ``before``: the page of a predecessor that a new
    process shows until its first step, whose counters it goes on with.
    """

    def __init__(
        self,
        pace: Pace,
        *,
        ready_at: float = 0.0,
        keeps_gauges: bool = False,
        before: Published | None = None,
    ) -> None:
        self.pace = pace
        self.awake = True
        self.slots = Slots(pace)
        self.deferred: dict[str, Job] = {}
        self.published = replace(before) if before else Published()
        self._keeps_gauges = keeps_gauges
        self._inbox: list[tuple[float, int, Job | _HangUp]] = []
        self._order = count()
        self._step: Step | None = None
        self._ready_at = ready_at
        self._frozen_at: float | None = None
        self._extra = 0.0
        # How often it has written, and the reading of what was written last.
        self._written = 0
        self._shown = (-1, True)
        self._reading = EngineReading()
        self._showed_work = False

    @property
    def shows_work(self) -> bool:
        """Whether anything that it has to do now has been there when it last wrote."""
        return self._showed_work and self.busy

    @property
    def busy(self) -> bool:
        """Whether it really has anything running or waiting, whatever the page says."""
        return self.at_work > 0

    @property
    def at_work(self) -> int:
        """How many requests it really has running or waiting."""
        return len(self.slots.running) + len(self.slots.waiting) + len(self.deferred)

    def submit(self, job: Job, at: float) -> None:
        """A request arrives; no step has seen it yet."""
        heapq.heappush(self._inbox, (at, next(self._order), job))

    def abort(self, job: Job, at: float) -> None:
        """Nobody waits for this request any more."""
        heapq.heappush(self._inbox, (at, next(self._order), _HangUp(job)))

    def freeze(self, now: float) -> None:
        """Stop in the middle of whatever is going on, until thawed."""
        self.advance(now)
        self._frozen_at = now if self._frozen_at is None else self._frozen_at

    def thaw(self, now: float) -> None:
        """Go on where it stood."""
        if self._frozen_at is None:
            return
        self._later(now - self._frozen_at, now)
        self._frozen_at = None

    def pause(self, seconds: float, now: float) -> None:
        """Stand still for some seconds, as for a garbage collection."""
        self.advance(now)
        self._later(seconds, now + seconds)

    def compile(self, seconds: float) -> None:
        """Make the next step that begins take longer by this much: one long step."""
        self._extra = max(self._extra, seconds)

    def deadlock(self, now: float, *, patient: bool) -> None:
        """Put everything that runs back into the queue and never admit anything again.

        ``patient``: none of the clients that are waiting gives up.
        """
        self.advance(now)
        if patient:
            self._inbox = [each for each in self._inbox if isinstance(each[2], Job)]
            heapq.heapify(self._inbox)
        self.slots.close()
        self._step = None
        self._ready_at = now
        self._write_gauges()

    def advance(self, now: float) -> None:
        """Carry out everything that happens up to ``now``."""
        while self._frozen_at is None:
            if self._step is None:
                if not self._begin(now):
                    return
            elif self._step.ends <= now:
                self._end(self._step)
            else:
                return

    def reading(self, *, gauges_absent: bool, reasons: bool) -> EngineReading:
        """The page's values; ``gauges_absent`` until the first step, as in multiprocess mode."""
        page = self.published
        shown = (self._written, self.awake)
        if shown == self._shown:
            return self._reading
        self._shown = shown
        self._reading = self._read(page, gauges_absent=gauges_absent, reasons=reasons)
        return self._reading

    def _read(self, page: Published, *, gauges_absent: bool, reasons: bool) -> EngineReading:
        counters: dict[str, Any] = {
            "steps": float(page.steps),
            "step_tokens": float(page.step_tokens),
            "generation_tokens": float(page.generated),
            "prompt_tokens": float(page.prompt),
            "finished": float(page.finished),
            "preemptions": float(page.preemptions),
            "prefix_queries": float(page.queries),
            "prefix_hits": 0.0,
        }
        if gauges_absent and not page.stepped:
            return EngineReading(**counters, awake=self.awake)
        return EngineReading(
            running=float(page.running),
            waiting=float(page.waiting + page.deferred),
            waiting_capacity=float(page.waiting) if reasons else None,
            waiting_deferred=float(page.deferred) if reasons else None,
            kv_usage=page.kv_usage,
            awake=self.awake,
            **counters,
        )

    def _later(self, seconds: float, not_before: float) -> None:
        self._ready_at = max(self._ready_at, not_before)
        if self._step is not None:
            self._step = self._step._replace(ends=self._step.ends + seconds)

    def _begin(self, now: float) -> bool:
        """Begin the next step, or leap over some; False if nothing begins by ``now``."""
        while self._inbox and _is_void(self._inbox[0][2]):
            heapq.heappop(self._inbox)
        start = self._ready_at
        if not self.slots.running and not (self.slots.waiting and self.slots.admits):
            if not self._inbox:
                return False
            start = max(start, self._inbox[0][0])
        if start > now:
            return False
        self._ready_at = start
        requests_came = self._take_in(start)
        if self._leap(start, now):
            return True
        step = self.slots.plan(start, self._extra)
        if step.work:
            self._extra = 0.0
            self._step = step
            return True
        if requests_came or not self._keeps_gauges:
            self._write_gauges()
        # A queue that cannot be admitted is looked at again when something arrives.
        return bool(self._inbox) and self._inbox[0][0] <= now

    def _take_in(self, now: float) -> bool:
        """Take in what has arrived; whether a request was among it."""
        requests_came = False
        while self._inbox and self._inbox[0][0] <= now:
            at, _, message = heapq.heappop(self._inbox)
            if isinstance(message, _HangUp):
                self._drop(message.job)
                continue
            requests_came = True
            if not message.deferred:
                self.slots.waiting.append(message)
            elif message.id in self.deferred:
                del self.deferred[message.id]
                message.deferred = 0.0
                self.slots.waiting.append(message)
            else:
                self.deferred[message.id] = message
                self.submit(message, at + message.deferred)
        return requests_came

    def _drop(self, job: Job) -> None:
        if not self.slots.leave(job) and self.deferred.pop(job.id, None) is not None:
            self._inbox = [each for each in self._inbox if each[2] is not job]
            heapq.heapify(self._inbox)
        # Gauges may go on showing what is gone.
        self._showed_work = self._showed_work and self.busy

    def _leap(self, start: float, now: float) -> bool:
        """Take as many steps at once as only decode, end by ``now`` and change nobody's place."""
        if not self.slots.running or self._extra or self.slots.admissible():
            return False
        lasts = 1 / self.pace.steps_per_second
        steps = int((now - start) / lasts)
        if self._inbox:
            steps = min(steps, math.ceil((self._inbox[0][0] - start) / lasts))
        for job in self.slots.running:
            if job.outstanding != 1 or not job.generated:
                return False
            steps = min(steps, job.target - job.generated - 1)
        if steps < 2 or not self.slots.leap(steps):  # noqa: PLR2004 -- one alone is no leap
            return False
        self._ready_at = start + steps * lasts
        tokens = steps * len(self.slots.running)
        page = self.published
        page.steps += steps
        page.step_tokens += tokens
        page.generated += tokens
        self._write_gauges()
        return True

    def _end(self, step: Step) -> None:
        self._step = None
        self._ready_at = step.ends
        page = self.published
        page.preemptions += step.preempted
        page.queries += step.queried
        prompt = out = 0
        for job, tokens in step.work:
            job.computed += tokens
            if job.outstanding:
                continue
            prompt += 0 if job.generated else job.prompt
            job.generated += 1
            out += 1
            if job.generated >= job.target:
                page.finished += 1
                job.done_at = step.ends
                self.slots.leave(job)
        if out:
            page.steps += 1
            page.step_tokens += prompt + out
            page.generated += out
            page.prompt += prompt
        self._write_gauges()

    def _write_gauges(self) -> None:
        self._written += 1
        page = self.published
        page.stepped = True
        page.running = len(self.slots.running)
        page.waiting = len(self.slots.waiting)
        page.deferred = len(self.deferred)
        page.kv_usage = self.slots.usage
        self._showed_work = self.busy


def _is_void(message: Job | _HangUp) -> bool:
    """Whether it is the hanging up of a client whose request is done."""
    return isinstance(message, _HangUp) and message.job.done_at is not None
