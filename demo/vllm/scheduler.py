"""Who gets how many tokens in the next step: first come first served, in chunks, within blocks."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from demo.vllm.blocks import BlockPool, chain
from demo.vllm.limits import Limits
from demo.vllm.request import Request


@dataclass(eq=False)
class Job:
    """A request inside the engine; times are seconds of the engine's clock.

    ``computed`` counts the tokens of ``ids`` that are in the KV cache. Preemption sets it back.
    """

    request: Request
    arrived: float
    ids: list[int] = field(init=False)
    computed: int = 0
    cached: int = 0
    preemptions: int = 0
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float = 0.0
    digest: int | None = None
    keys: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    nameless: int = 0

    def __post_init__(self) -> None:
        """Start with the prompt alone."""
        self.ids = list(self.request.prompt)

    @property
    def outstanding(self) -> int:
        """Tokens that have to be computed before the next one can come out."""
        return len(self.ids) - self.computed

    @property
    def prefilling(self) -> bool:
        """Whether prompt tokens, or tokens lost to preemption, are still to be computed."""
        return self.outstanding > 1 or self.computed < len(self.request.prompt)

    @property
    def generated(self) -> int:
        """Tokens that came out so far."""
        return len(self.ids) - len(self.request.prompt)


@dataclass(frozen=True)
class Plan:
    """One step: which jobs compute how many tokens, and what making room for them took."""

    work: tuple[tuple[Job, int], ...]
    preempted: int
    queried: int
    hit: int

    @property
    def prefill_tokens(self) -> int:
        """Tokens of this step that are not decoding."""
        return sum(tokens for job, tokens in self.work if job.prefilling)


class Scheduler:
    """The queue, the slots and the blocks.

    Invariant: no more than ``max_num_seqs`` run, and the blocks held are those of running jobs.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pool = BlockPool(limits.usable_blocks)
        self.running: list[Job] = []
        self.waiting: deque[Job] = deque()

    def add(self, job: Job) -> None:
        """Queue a job."""
        self.waiting.append(job)

    def drop(self, request_id: str) -> None:
        """Forget a job and free what it holds; one that is not here is nobody's loss."""
        for job in [job for job in self.running if job.request.id == request_id]:
            self.finish(job)
        self.waiting = deque(job for job in self.waiting if job.request.id != request_id)

    def finish(self, job: Job) -> None:
        """Take a running job out of its slot."""
        self.running.remove(job)
        self._release(job)

    def plan(self, now: float) -> Plan:
        """Choose the work of a step that starts at ``now``, and hold the blocks it needs."""
        budget = self.limits.max_num_batched_tokens
        work: dict[Job, int] = {}
        preempted = 0
        for job in list(self.running):
            tokens = min(job.outstanding, budget)
            if job not in self.running or not tokens:
                continue
            preempted += self._make_room(job, tokens)
            if job in self.running:
                work[job] = tokens
                budget -= tokens
        queried = hit = 0
        while not preempted and budget and self._slot_free():
            job = self.waiting[0]
            first_time = job.scheduled_at is None
            tokens = self._admit(job, budget)
            if not tokens:
                break
            self.running.append(self.waiting.popleft())
            work[job] = tokens
            budget -= tokens
            if first_time:
                job.scheduled_at, job.cached = now, job.computed
                queried += len(job.request.prompt)
                hit += job.cached
        return Plan(tuple(work.items()), preempted, queried, hit)

    def computed(self, job: Job, tokens: int) -> None:
        """A step has put these tokens into the KV cache; full blocks can be shared from now on."""
        job.computed += tokens
        size = self.limits.block_size
        full = job.computed // size
        if full > len(job.keys):
            job.keys = chain(job.ids[: full * size], size, job.keys)
        for key in job.keys[len(job.named) : full]:
            if not self.pool.name(key):
                break
            job.named.append(key)
            job.nameless -= 1

    def _slot_free(self) -> bool:
        return bool(self.waiting) and len(self.running) < self.limits.max_num_seqs

    def _make_room(self, job: Job, tokens: int) -> int:
        """Preempt the youngest until this job has its blocks or is itself preempted; how many."""
        preempted = 0
        while job in self.running and not self._grow(job, tokens, ()):
            victim = self.running.pop()
            self._release(victim)
            victim.computed = 0
            victim.preemptions += 1
            self.waiting.appendleft(victim)
            preempted += 1
        return preempted

    def _admit(self, job: Job, budget: int) -> int:
        """Tokens a waiting job can compute now, its cached prefix held; 0 if it has to wait."""
        size = self.limits.block_size
        job.keys = chain(job.ids, size, job.keys)
        # The last token is always computed: a token has to come out of something.
        shared = self.pool.cached(job.keys[: (len(job.ids) - 1) // size])
        job.computed = len(shared) * size
        tokens = min(job.outstanding, budget)
        if not self._grow(job, tokens, shared):
            job.computed = 0
            return 0
        job.named = list(shared)
        return tokens

    def _grow(self, job: Job, tokens: int, shared: Sequence[int]) -> bool:
        needed = -(-(job.computed + tokens) // self.limits.block_size)
        fresh = needed - len(job.named) - job.nameless - len(shared)
        if not self.pool.take(shared, fresh):
            return False
        job.nameless += fresh
        return True

    def _release(self, job: Job) -> None:
        self.pool.release(job.named, job.nameless)
        job.named, job.nameless = [], 0
