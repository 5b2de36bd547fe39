"""What is remembered of a backend beyond single incidents: holds, restarts by others, giving up."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

EVERY_BACKEND = "*"


@dataclass(frozen=True)
class HoldBack:
    """Somebody's word that a backend is not to be restarted until a time; it always has an end.

    ``backend`` is EVERY_BACKEND for the whole fleet.
    """

    id: int
    backend: str
    since: datetime
    until: datetime
    held_by: str
    why: str
    released_at: datetime | None = None
    released_by: str = ""

    def holds(self, backend: str, now: datetime) -> bool:
        """Whether it speaks of this backend, now."""
        return (
            self.backend in (backend, EVERY_BACKEND)
            and self.released_at is None
            and self.since <= now < self.until
        )


class Whose(StrEnum):
    """Who started a process, as far as can be told; FIRST is one that ran when we first looked."""

    FIRST = "first"
    OURS = "ours"
    FOREIGN = "foreign"


@dataclass(frozen=True)
class Start:
    """A process of a backend, by its start time, and when it was first seen."""

    backend: str
    started_at: datetime
    seen_at: datetime
    whose: Whose
    attempt_id: int | None = None


@dataclass(frozen=True)
class Record:
    """What is remembered of one backend.

    ``given_up_at`` is None unless restarts are a person's matter until they say ``reset``;
    attempts before ``reset_at`` do not count as ones that did not help. ``last_foreign`` is the
    last start by somebody else. ``loads`` are the seconds that its last restarts took from the
    command to the first answer, the newest first.
    """

    given_up_at: datetime | None = None
    given_up_why: str = ""
    reset_at: datetime | None = None
    reset_by: str = ""
    last_foreign: datetime | None = None
    loads: tuple[float, ...] = ()

    @property
    def longest_load(self) -> float | None:
        """The longest of ``loads``, in seconds; None where none was seen."""
        return max(self.loads, default=None)
