"""One engine: steps that take time, under a clock that is an argument.

The engine never asks for the time. ``advance(now)`` carries out every step that ends by ``now``;
what arrives in between waits in an inbox until the next step begins, as messages to a real engine
process do. Only a step that ends writes to the tally, so on a frozen engine nothing moves.
"""

from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum

from demo.vllm.limits import Limits
from demo.vllm.request import FinishReason, Output, Request
from demo.vllm.scheduler import Job, Plan, Scheduler
from demo.vllm.tally import Published, Tally
from demo.vllm.tokens import fold, following


class EngineState(StrEnum):
    """Whether the engine process gets to do anything."""

    ALIVE = "alive"
    FROZEN = "frozen"
    DEAD = "dead"


@dataclass(frozen=True)
class Occupancy:
    """What the engine really holds now, whatever it last wrote about it."""

    state: EngineState
    running: int
    waiting: int
    unseen: int
    steps: int
    steps_per_second: float
    kv_usage: float


@dataclass(frozen=True)
class _Step:
    plan: Plan
    began: float
    ends: float


class Engine:
    """Scheduler, clock and tally of one engine. Times are seconds and must not go backwards.

    Call ``advance(now)`` before ``freeze``, ``thaw``, ``kill`` or ``pace`` at the same ``now``:
    they act on what is left after it.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.state = EngineState.ALIVE
        self._scheduler = Scheduler(limits)
        self._tally = Tally()
        self._inbox: deque[tuple[float, Request | str]] = deque()
        self._step: _Step | None = None
        self._ready_at = 0.0
        self._frozen_at = 0.0
        self._steps = 0

    def submit(self, request: Request, now: float) -> None:
        """Send a request to the engine; no step has seen it yet."""
        if len(request.prompt) + request.max_tokens > self.limits.max_model_len:
            raise ValueError(
                f"{len(request.prompt)} prompt tokens and {request.max_tokens} output tokens"
                f" are more than max_model_len {self.limits.max_model_len}"
            )
        self._inbox.append((now, request))

    def abort(self, request_id: str, now: float) -> None:
        """Tell the engine that nobody waits for this request any more."""
        self._inbox.append((now, request_id))

    def due(self) -> float | None:
        """When something will happen next if nothing else arrives; None: never."""
        if self.state is not EngineState.ALIVE:
            return None
        return self._step.ends if self._step else self._next_start()

    def advance(self, now: float) -> list[Output]:
        """Carry out everything that happens up to ``now`` and give out what came of it."""
        outputs: list[Output] = []
        while (due := self.due()) is not None and due <= now:
            if self._step:
                outputs += self._end(self._step)
            else:
                self._begin(due)
        return outputs

    def freeze(self, now: float) -> None:
        """Stop in the middle of whatever is going on."""
        if self.state is EngineState.ALIVE:
            self.state, self._frozen_at = EngineState.FROZEN, now

    def thaw(self, now: float) -> None:
        """Go on where it stood: a step has as long to go as it had when it was frozen."""
        if self.state is EngineState.FROZEN:
            self.state = EngineState.ALIVE
            self._ready_at = max(self._ready_at, now)
            if self._step:
                self._step = replace(self._step, ends=self._step.ends + now - self._frozen_at)

    def kill(self) -> None:
        """End for good; the last written values stay."""
        self.state = EngineState.DEAD

    def pace(self, steps_per_second: float, now: float) -> None:
        """Change the speed, also of the step under way."""
        self.limits = replace(self.limits, steps_per_second=steps_per_second)
        if self._step:
            ends = self._step.began + self._duration(self._step.plan)
            self._step = replace(self._step, ends=max(ends, now))

    def published(self) -> Published:
        """What the engine last wrote."""
        return self._tally.published()

    def occupancy(self) -> Occupancy:
        """What the engine holds."""
        return Occupancy(
            state=self.state,
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting),
            unseen=len(self._inbox),
            steps=self._steps,
            steps_per_second=self.limits.steps_per_second,
            kv_usage=self._scheduler.pool.usage,
        )

    def _next_start(self) -> float | None:
        if self._scheduler.running or self._scheduler.waiting:
            return self._ready_at
        return max(self._ready_at, self._inbox[0][0]) if self._inbox else None

    def _begin(self, now: float) -> None:
        while self._inbox and self._inbox[0][0] <= now:
            arrived, message = self._inbox.popleft()
            if isinstance(message, Request):
                self._scheduler.add(Job(message, arrived))
            else:
                self._scheduler.drop(message)
        plan = self._scheduler.plan(now)
        if plan.work:
            self._step = _Step(plan, now, now + self._duration(plan))
        else:
            self._ready_at = now
            self._write_gauges()

    def _duration(self, plan: Plan) -> float:
        prefill = plan.prefill_tokens / self.limits.prefill_tokens_per_second
        return 1 / self.limits.steps_per_second + prefill

    def _end(self, step: _Step) -> list[Output]:
        self._step, self._ready_at = None, step.ends
        self._steps += 1
        self._tally.scheduled(step.plan)
        outputs = []
        prompt_tokens = 0
        for job, tokens in step.plan.work:
            self._scheduler.computed(job, tokens)
            if not job.outstanding:
                prompt_tokens += len(job.request.prompt) if job.first_token_at is None else 0
                outputs.append(self._give_out(job, step.ends))
        if outputs:
            self._tally.step(prompt_tokens, sum(1 for each in outputs if each.token is not None))
        self._write_gauges()
        return outputs

    def _give_out(self, job: Job, now: float) -> Output:
        token = None if job.request.pooling else self._next_token(job)
        self._tally.token(job, now)
        job.first_token_at = now if job.first_token_at is None else job.first_token_at
        job.last_token_at = now
        finish = self._finish_reason(job, token)
        if finish:
            self._scheduler.finish(job)
            self._tally.finish(job, finish)
        return Output(job.request.id, token, finish, now)

    def _next_token(self, job: Job) -> int:
        digest = fold(job.ids) if job.digest is None else job.digest
        token = following(digest)
        job.digest = fold((token,), digest)
        job.ids.append(token)
        return token

    def _finish_reason(self, job: Job, token: int | None) -> FinishReason | None:
        if token is None or token in job.request.stop_token_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if job.generated >= job.request.max_tokens else None

    def _write_gauges(self) -> None:
        self._tally.gauges(
            len(self._scheduler.running),
            len(self._scheduler.waiting),
            self._scheduler.pool.usage,
        )
