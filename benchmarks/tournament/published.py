"""What an engine has written about itself."""

from dataclasses import dataclass


@dataclass(slots=True)
class Published:
    """What the engine has written about itself; ``stepped``: whether it ever has."""

    stepped: bool = False
    running: int = 0
    waiting: int = 0
    deferred: int = 0
    kv_usage: float = 0.0
    steps: int = 0
    step_tokens: int = 0
    generated: int = 0
    prompt: int = 0
    finished: int = 0
    preemptions: int = 0
    queries: int = 0
