"""What an engine may hold and how fast it goes."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """Sizes in tokens or blocks, rates per second; named as vLLM's options where it has them."""

    max_num_seqs: int = 4
    max_num_batched_tokens: int = 1024
    max_model_len: int = 32768
    block_size: int = 128
    num_gpu_blocks: int = 1024
    steps_per_second: float = 20.0
    prefill_tokens_per_second: float = 800.0

    def __post_init__(self) -> None:
        """Refuse what could never be served."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ValueError(f"{field.name} must be above 0, got {value}")
        if self.max_model_len > self.kv_tokens:
            raise ValueError(
                f"max_model_len {self.max_model_len} is more than the {self.kv_tokens} tokens"
                f" that {self.usable_blocks} KV blocks of {self.block_size} hold"
            )

    @property
    def usable_blocks(self) -> int:
        """KV blocks a request can get: vLLM keeps one as the null block."""
        return self.num_gpu_blocks - 1

    @property
    def kv_tokens(self) -> int:
        """Tokens that fit into the usable blocks."""
        return self.usable_blocks * self.block_size
