"""What the engine is asked for, and what it gives back."""

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    """Why a generation ended; values as in vLLM's ``finish_reason``."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class Request:
    """A prompt as token ids and at most ``max_tokens`` of output; none at all when pooling."""

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stop_token_ids: frozenset[int] = frozenset()
    pooling: bool = False

    def __post_init__(self) -> None:
        """Refuse a request no step could ever finish."""
        if not self.prompt:
            raise ValueError("a prompt needs at least one token")
        if self.max_tokens < 1 and not self.pooling:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")


@dataclass(frozen=True)
class Output:
    """One token of one request, at ``at`` seconds of the engine's clock.

    ``finish`` stands on the last one; pooling has this one only, without a token.
    """

    request_id: str
    token: int | None
    finish: FinishReason | None
    at: float
