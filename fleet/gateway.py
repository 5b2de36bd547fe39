"""The gateway's settings."""

from dataclasses import dataclass
from pathlib import Path

# So much longer than any answer may be waited for is a connection kept on which nothing is asked.
LONGER_SECONDS = 75.0


def idle_after(first_byte_after: float) -> float:
    """How long a client's idle connection is kept, in seconds.

    Longer than a proxy keeps it that has one timeout for answers and for idle connections: who
    closes first must be the proxy, or it sends a request on a connection that is just being closed.
    """
    return first_byte_after + LONGER_SECONDS


@dataclass(frozen=True)
class GatewaySettings:
    """How the gateway relays, drains, goes on and bills; durations in seconds, sizes in bytes.

    Its end: from SIGTERM on it has ``window``; it goes on taking requests for ``propagation``,
    until load balancers have noticed, and cuts what is left ``margin`` before the window ends.
    A stream without a byte from its server for ``stall_after`` goes on elsewhere; before the first
    byte it may be queued for ``first_byte_after``. A client that takes nothing of what is sent to
    it for ``client_stall_after`` counts as gone. ``tries``: how many backends are asked before the
    first byte. ``legs``: at how many one stream is generated at most. ``per_caller``: requests of
    one caller at once, None for no limit. ``questions_per_caller``: requests of one caller that are
    kept to be followed. ``resume_for``: how long a resume token is good.
    """

    admin_token_file: Path
    keys_file: Path | None
    database: str
    journal_folder: Path
    resume_key_file: Path | None
    exporter: str | None
    window: float
    margin: float
    propagation: float
    stall_after: float
    first_byte_after: float
    client_stall_after: float
    keep_alive: float
    connect_timeout: float
    look_every: float
    tries: int
    legs: int
    largest_body: int
    per_caller: int | None
    questions_per_caller: int
    cors_origins: tuple[str, ...]
    resume_for: float
    takeover_after: float
