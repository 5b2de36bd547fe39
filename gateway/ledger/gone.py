"""I/O: other gateways that are gone: what they had in hand is ended, and counted as far as known.

One on this host is gone when its journal's lock is free; the journal knows everything. One on
another host is gone when its number in the database has not moved for ``takeover_after`` seconds
of our own monotonic clock: no two clocks are ever compared. Then what it last wrote there counts.
One that was only cut off, and comes back, adds what is missing itself.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from gateway.ledger import book
from gateway.ledger.database import Database
from gateway.ledger.dead import dead
from gateway.ledger.entries import Found
from gateway.ledger.tables import gateways, requests

NEVER = -1

# Keeps streams that can be gone on with, in the transaction that ends them.
Keep = Callable[[Connection, Sequence["Orphan"]], None]

log = logging.getLogger("gateway")


@dataclass(frozen=True)
class Orphan:
    """A stream of a gateway that was killed, as it was when it was killed."""

    caller: str
    request_id: str
    snapshot: bytes


def forget(connection: Connection, orphans: Sequence[Orphan]) -> None:
    """Keep nothing."""
    del connection, orphans


class Gone:
    """Looks after others for one gateway. Belongs to one thread; raises StorageError."""

    def __init__(  # noqa: PLR0913 -- two clocks are two
        self,
        database: Database,
        folder: Path,
        holder: str,
        takeover_after: float,
        keep: Keep = forget,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._folder = folder
        self._holder = holder
        self._takeover_after = takeover_after
        self._keep = keep
        self._wall = wall
        self._monotonic = monotonic
        self._seen: dict[str, tuple[int, float]] = {}

    def recover(self) -> int:
        """Book what dead gateways' journals on this host hold; returns how many requests."""
        ended = 0
        for one in dead(self._folder):
            at = self._wall()
            runs = one.runs()
            with self._database.write() as connection:
                self._keep(connection, self._orphans(connection, one.holder, runs))
                bookings = [run.booking(at) for run in runs]
                ended += book.adopt(connection, one.holder, bookings, at)
            self._database.sync()  # the journal is on the disk, and is there no more after this
            one.remove()
            log.info("event=journal_recovered holder=%s requests=%d", one.holder, len(runs))
        return ended

    @staticmethod
    def _orphans(connection: Connection, holder: str, runs: Sequence[Found]) -> list[Orphan]:
        """What can be gone on with, and is not yet in other hands."""
        query = select(requests.c.run).where(requests.c.holder == holder).with_for_update()
        in_hand = set(connection.scalars(query))
        return [
            Orphan(run.opened.caller, run.opened.request_id, run.left)
            for run in runs
            if run.run in in_hand and run.left is not None
        ]

    def take_over(self) -> int:
        """End what silent gateways had in hand; returns how many requests."""
        now = self._monotonic()
        beats = self._beats()
        self._seen = {
            holder: seen
            for holder, beat in beats.items()
            for seen in [self._seen.get(holder, (beat, now))]
        }
        ended = 0
        for holder, beat in beats.items():
            if self._seen[holder][0] != beat:
                self._seen[holder] = beat, now
            elif now - self._seen[holder][1] >= self._takeover_after:
                ended += self._end(holder, beat)
        return ended

    def _beats(self) -> dict[str, int]:
        """The number of each other gateway that is there, or has something in hand."""
        in_hand = select(requests.c.holder).where(requests.c.holder.is_not(None)).distinct()
        with self._database.read() as connection:
            beats: dict[str, int] = dict.fromkeys(connection.scalars(in_hand), NEVER)
            query = select(gateways.c.holder, gateways.c.beat)
            beats.update((row.holder, row.beat) for row in connection.execute(query))
        beats.pop(self._holder, None)
        return beats

    def _end(self, holder: str, beat: int) -> int:
        with self._database.write() as connection:
            query = select(gateways.c.beat).where(gateways.c.holder == holder)
            found = connection.scalar(query.with_for_update())
            if beat != (NEVER if found is None else found):
                return 0
            ended = book.adopt(connection, holder, [], self._wall())
        log.warning("event=gateway_gone holder=%s requests=%d", holder, ended)
        return ended
