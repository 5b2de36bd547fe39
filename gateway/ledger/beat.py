"""I/O: a gateway's beat: that it is here, and how far its runs are.

It is written some 25 times a second, most often with nothing else.
"""

from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from gateway.ledger.database import Database
from gateway.ledger.tables import gateways, moment

_BEAT = (
    update(gateways)
    .where(gateways.c.holder == bindparam("us"))
    .values(beat=gateways.c.beat + 1, seen_at=bindparam("seen_at"), progress=bindparam("progress"))
)


class Beat:
    """Of one gateway; belongs to one thread. Times are in Unix seconds."""

    def __init__(self, database: Database, holder: str) -> None:
        self._database = database
        self._holder = holder
        self._alone = database.prepared(_BEAT)

    def within(self, connection: Connection, progress: bytes, at: float) -> None:
        """As part of a transaction."""
        values = self._values(progress, at)
        if connection.execute(_BEAT, values).rowcount == 0:
            del values["us"]
            connection.execute(insert(gateways).values(holder=self._holder, beat=0, **values))

    def alone(self, progress: bytes, at: float) -> None:
        """As a transaction of its own, the short way."""
        if self._alone.execute(self._values(progress, at)) == 0:
            with self._database.write() as connection:
                self.within(connection, progress, at)
        self._database.committed()

    def _values(self, progress: bytes, at: float) -> dict[str, Any]:
        return {"us": self._holder, "seen_at": moment(at), "progress": progress}
