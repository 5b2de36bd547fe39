"""Who gets how many tokens in the next step, as ``demo.vllm.scheduler`` decides it."""

from collections import deque
from typing import NamedTuple

from benchmarks.tournament.job import Job, Pace


class Step(NamedTuple):
    """One step: which jobs compute how many tokens, and when it ends."""

    work: list[tuple[Job, int]]
    ends: float
    preempted: int
    queried: int


class Slots:
    """The queue, the slots and the blocks: first come first served, in chunks, within blocks.

    Invariant: no more than ``max_num_seqs`` run, and the blocks held are those of running jobs.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.running: list[Job] = []
        self.waiting: deque[Job] = deque()
        self.held = 0
        self._usable = pace.num_gpu_blocks - 1

    @property
    def admits(self) -> bool:
        """Whether anything that waits can ever run."""
        return self._usable > 0

    @property
    def usage(self) -> float:
        """Share of the usable blocks that is held, 0 to 1."""
        return self.held / (self.pace.num_gpu_blocks - 1)

    def close(self) -> None:
        """Put everything that runs back into the queue and never admit anything again."""
        self.waiting.extendleft(reversed(self.running))
        for job in self.running:
            self._release(job)
        self.running = []
        self._usable = 0

    def leave(self, job: Job) -> bool:
        """A job is done or nobody waits for it; whether it was here."""
        if job in self.running:
            self.running.remove(job)
            self._release(job)
        elif job in self.waiting:
            self.waiting.remove(job)
        else:
            return False
        return True

    def admissible(self) -> bool:
        """Whether the next step would take in the job that waits longest."""
        if not self.waiting or len(self.running) >= self.pace.max_num_seqs:
            return False
        tokens = min(self.waiting[0].outstanding, self.pace.max_num_batched_tokens)
        return self.held + -(-tokens // self.pace.block_size) <= self._usable

    def leap(self, steps: int) -> bool:
        """Every running job decodes so many tokens, if there are blocks enough for that."""
        size = self.pace.block_size
        held = sum(-(-(job.computed + steps) // size) for job in self.running)
        if held > self._usable:
            return False
        self.held = held
        for job in self.running:
            job.computed += steps
            job.generated += steps
            job.blocks = -(-job.computed // size)
        return True

    def plan(self, start: float, extra: float) -> Step:
        """The step that starts now and takes ``extra`` seconds more than its tokens need."""
        left = self.pace.max_num_batched_tokens
        work: dict[Job, int] = {}
        preempted = queried = 0
        for job in list(self.running):
            tokens = min(job.outstanding, left)
            if job not in self.running or not tokens:
                continue
            preempted += self._make_room(job, tokens, work)
            if job in self.running:
                work[job] = tokens
                left -= tokens
        while not preempted and left and self.waiting:
            job = self.waiting[0]
            tokens = min(job.outstanding, left)
            full = len(self.running) >= self.pace.max_num_seqs
            if full or not self._grow(job, tokens):
                break
            self.running.append(self.waiting.popleft())
            work[job] = tokens
            left -= tokens
            if not job.scheduled:
                job.scheduled = True
                queried += job.prompt
        prefill = sum(tokens for job, tokens in work.items() if job.prefilling)
        lasts = 1 / self.pace.steps_per_second + extra
        lasts += prefill / self.pace.prefill_tokens_per_second
        return Step(list(work.items()), start + lasts, preempted, queried)

    def _make_room(self, job: Job, tokens: int, work: dict[Job, int]) -> int:
        """Preempt the youngest until this job has its blocks or is itself preempted; how many."""
        preempted = 0
        while job in self.running and not self._grow(job, tokens):
            victim = self.running.pop()
            work.pop(victim, None)
            self._release(victim)
            self.waiting.appendleft(victim)
            preempted += 1
        return preempted

    def _grow(self, job: Job, tokens: int) -> bool:
        needed = -(-(job.computed + tokens) // self.pace.block_size)
        if self.held + needed - job.blocks > self._usable:
            return False
        self.held += needed - job.blocks
        job.blocks = needed
        return True

    def _release(self, job: Job) -> None:
        self.held -= job.blocks
        job.blocks = 0
        job.computed = 0
