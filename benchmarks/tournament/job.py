"""What clients ask for, how far it has come, and how fast and large an engine is."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pace:
    """How fast and how large an engine is; named as vLLM's options where it has them.

    A step takes ``1 / steps_per_second`` plus its prompt tokens by ``prefill_tokens_per_second``.
    """

    max_num_seqs: int = 8
    max_num_batched_tokens: int = 1024
    block_size: int = 16
    num_gpu_blocks: int = 20_000
    steps_per_second: float = 20.0
    prefill_tokens_per_second: float = 4000.0


@dataclass(eq=False, slots=True)
class Job:
    """A request: ``prompt`` and at most ``target`` output tokens.

    ``deferred``: seconds it waits for something outside the engine before it can be scheduled.
    ``computed`` counts tokens in the KV cache, ``blocks`` what they hold.
    """

    id: str
    prompt: int
    target: int
    deferred: float = 0.0
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    scheduled: bool = False
    done_at: float | None = field(default=None)

    @property
    def outstanding(self) -> int:
        """Tokens that have to be computed before the next one can come out."""
        return self.prompt + self.generated - self.computed

    @property
    def prefilling(self) -> bool:
        """Whether prompt tokens, or tokens lost to preemption, are still to be computed."""
        return self.outstanding > 1 or self.computed < self.prompt
