"""Answers that came to their end a moment ago: their last events may not have arrived.

They are in this process's memory alone. A commit for each answer would cost all of them what few
need, and nothing of their content is to be on a disk once they are complete.
"""

from dataclasses import dataclass

from gateway.transcript import Transcript

GOOD_FOR_SECONDS = 60.0
MOST = 10_000
MOST_BYTES = 64 * 1024 * 1024
OVERHEAD = 1500  # bytes an answer, about, beside what is packed


@dataclass(frozen=True)
class _End:
    transcript: Transcript
    until: float


class Finished:
    """Belongs to one loop; times in seconds of its clock.

    Invariant: an answer is given to its caller alone, for ``good_for`` after its end; there are
    never more than ``most`` of them, nor than ``most_bytes``. The oldest ones go first.
    """

    def __init__(
        self,
        good_for: float = GOOD_FOR_SECONDS,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._good_for = good_for
        self._most = most
        self._most_bytes = most_bytes
        self._size = 0
        self._ends: dict[tuple[str, str], _End] = {}  # the oldest first

    def keep(self, caller: str, transcript: Transcript, now: float) -> None:
        """Keep an answer that is complete and packed."""
        key = caller, transcript.request_id
        self._drop(key)
        self._ends[key] = _End(transcript, now + self._good_for)
        self._size += transcript.size + OVERHEAD
        while len(self._ends) > self._most or self._size > self._most_bytes:
            self._drop(next(iter(self._ends)))

    def find(self, caller: str, request_id: str, now: float) -> Transcript | None:
        """Return a caller's answer, and leave it there."""
        end = self._ends.get((caller, request_id))
        return None if end is None or end.until <= now else end.transcript

    def forget(self, now: float) -> None:
        """Drop what has been there for long enough."""
        while self._ends and next(iter(self._ends.values())).until <= now:
            self._drop(next(iter(self._ends)))

    def _drop(self, key: tuple[str, str]) -> None:
        end = self._ends.pop(key, None)
        if end is not None:
            self._size -= end.transcript.size + OVERHEAD
