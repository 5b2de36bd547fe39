"""Which of several remediators on one database has a backend in hand.

A lock names its holder, and each holder's row has a number that it raises again and again. A
holder whose number has not moved for ``takeover_after`` seconds of our own monotonic clock is
gone, and its locks may be taken: no two clocks are ever compared.

A lock only keeps two remediators from doing the same work. That nothing is done twice rests on the
attempts' states, which are only ever stepped forward from the one that was read: a holder that
wakes up after it was taken for gone finds that its next step is not its own any more.
"""

import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from remediator import tables
from remediator.database import Database

BEATS_PER_TAKEOVER = 5
FORGET_AFTER = timedelta(days=1)
NOBODY = ""


class Locks:
    """The locks of one remediator. May be used from several threads; raises StorageError."""

    def __init__(
        self,
        database: Database,
        takeover_after: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.holder = uuid.uuid4().hex
        self._database = database
        self._takeover_after = takeover_after
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._beat_at = float("-inf")
        self._seen: dict[str, tuple[int, float]] = {}

    def beat(self, now: datetime) -> None:
        """Tell the others that we are here, if it is time to."""
        if self._monotonic() - self._beat_at < self._takeover_after / BEATS_PER_TAKEOVER:
            return
        table = tables.replicas
        with self._database.write() as connection:
            found = connection.execute(
                update(table)
                .where(table.c.holder == self.holder)
                .values(beat=table.c.beat + 1, seen_at=now)
            )
            if found.rowcount == 0:
                connection.execute(insert(table).values(holder=self.holder, beat=0, seen_at=now))
                connection.execute(delete(table).where(table.c.seen_at < now - FORGET_AFTER))
        self._beat_at = self._monotonic()

    def take(self, name: str) -> bool:
        """Take a lock that nobody holds, or whose holder is gone; tells whether it is ours now."""
        table = tables.locks
        with self._database.read() as connection:
            holder = connection.scalar(select(table.c.holder).where(table.c.name == name))
            if holder == self.holder:
                return True
            if holder and not self._is_gone(connection, holder):
                return False
        with self._database.write() as connection:
            if holder is None:
                try:
                    with connection.begin_nested():
                        connection.execute(insert(table).values(name=name, holder=self.holder))
                except IntegrityError:
                    return False
                return True
            taken = connection.execute(
                update(table)
                .where(table.c.name == name, table.c.holder == holder)
                .values(holder=self.holder)
            )
            return taken.rowcount == 1

    def release(self, name: str) -> None:
        """Give a lock back, if it is still ours."""
        table = tables.locks
        with self._database.write() as connection:
            connection.execute(
                update(table)
                .where(table.c.name == name, table.c.holder == self.holder)
                .values(holder=NOBODY)
            )

    def leave(self) -> None:
        """Give every lock back: the others need not wait for us."""
        with self._database.write() as connection:
            table = tables.locks
            connection.execute(
                update(table).where(table.c.holder == self.holder).values(holder=NOBODY)
            )
            replicas = tables.replicas
            connection.execute(delete(replicas).where(replicas.c.holder == self.holder))

    def _is_gone(self, connection: Connection, holder: str) -> bool:
        table = tables.replicas
        beat = connection.scalar(select(table.c.beat).where(table.c.holder == holder))
        now = self._monotonic()
        with self._guard:
            seen = self._seen.get(holder)
            number = -1 if beat is None else beat
            if seen is None or seen[0] != number:
                self._seen[holder] = (number, now)
                return False
            return now - seen[1] >= self._takeover_after


def one_at_a_time(connection: Connection) -> None:
    """Wait until no other remediator is deciding what uses up a limit of the whole fleet.

    Holds until the transaction ends. SQLite lets one writer at a time in anyway.
    """
    table = tables.locks
    query = select(table.c.name).where(table.c.name == FLEET).with_for_update()
    if connection.execute(query).first() is None:
        try:
            with connection.begin_nested():
                connection.execute(insert(table).values(name=FLEET, holder=NOBODY))
        except IntegrityError:
            pass
        connection.execute(query).first()


FLEET = "*fleet*"
