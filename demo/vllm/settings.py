"""How one simulated server is set up."""

from dataclasses import dataclass, field

from demo.vllm.limits import Limits
from demo.vllm.template import Shape


@dataclass(frozen=True)
class Settings:
    """What the command line says; ``load_seconds`` is how long the port stays shut at first."""

    host: str = "127.0.0.1"
    port: int = 8000
    model: str = "tiny"
    limits: Limits = field(default_factory=Limits)
    data_parallel_size: int = 1
    multiprocess: bool = False
    load_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.data_parallel_size < 1:
            raise ValueError(
                f"data_parallel_size must be at least 1, got {self.data_parallel_size}"
            )
        if self.load_seconds < 0:
            raise ValueError(f"load_seconds must not be negative, got {self.load_seconds:g}")
        if not 0 <= self.port <= 65535:  # noqa: PLR2004 - what a port number can be
            raise ValueError(f"port must be from 0 to 65535, got {self.port}")

    @property
    def shape(self) -> Shape:
        """Which page: vLLM starts an API server per engine, and several write the other one."""
        several = self.multiprocess or self.data_parallel_size > 1
        return Shape.MULTIPROCESS if several else Shape.SINGLE
