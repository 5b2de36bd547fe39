"""How a leg of a request ended."""

from dataclasses import dataclass
from enum import StrEnum


class How(StrEnum):
    """What became of it.

    COMPLETE: it came to the answer's end. BROKEN: by the backend, or because that is drained.
    REFUSED: before anything was sent. GONE: the client is. UNREAD: the client takes nothing of what
    is sent to it. CUT: by us.
    """

    COMPLETE = "complete"
    BROKEN = "broken"
    REFUSED = "refused"
    GONE = "gone"
    UNREAD = "unread"
    CUT = "cut"


@dataclass(frozen=True)
class Outcome:
    """How, one sentence, and the server's own answer where it refused.

    ``stale``: a kept connection that the server had closed meanwhile; nothing is wrong with it.
    """

    how: How
    why: str = ""
    status: int = 0
    body: bytes = b""
    stale: bool = False
