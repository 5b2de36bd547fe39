"""One model server that lifeguard looks after."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fleet.way import Way


class Kind(StrEnum):
    """What answers at a backend's URL."""

    VLLM = "vllm"
    PROXY = "proxy"


@dataclass(frozen=True)
class Restart:
    """How one backend is restarted; ``timeout`` is in seconds, the model's loading comes after."""

    way: Way
    timeout: float


@dataclass(frozen=True)
class Backend:
    """A model server: who it is, where it answers, and how patient one is with it.

    ``name`` is the value of the ``backend`` label and the only thing an alert chooses a server by.
    ``url`` has no trailing slash. ``wait`` and ``load_time`` are in seconds: silence of two waits
    is proof of a hang, and ``load_time`` is how long a restarted server may take to answer again.
    ``warm_up``, also in seconds, is how long a new process that has put out nothing yet may be
    silent before that counts: the first request may have to wait for a compilation.
    ``evidence`` are commands whose output is kept when it is restarted; ``gateways`` are the base
    URLs of the gateways whose streams are moved away before.
    """

    name: str
    url: str
    kind: Kind
    wait: float
    load_time: float
    warm_up: float = 0.0
    api_key_file: Path | None = None
    restart: Restart | None = None
    evidence: tuple[tuple[str, ...], ...] = ()
    gateways: tuple[str, ...] = ()
