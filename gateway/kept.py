"""What interrupted streams need to go on, kept in the database that replicas share.

Invariant: what is kept is taken up once, by one replica, by its caller, before it expires; what
was taken up is no longer there to read.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Index,
    LargeBinary,
    Row,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from gateway.ledger.gone import Orphan
from gateway.ledger.tables import metadata, moment
from gateway.seal import NotGood, Seal, Token, Why

resumptions = Table(
    "resumptions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("request_id", Text, nullable=False),
    Column("caller", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("expires_at", DateTime, nullable=False),
    Column("used_at", DateTime),
    Index("resumptions_of_request", "caller", "request_id"),
    Index("resumptions_by_end", "expires_at"),
)
_WIPED = b""
QUESTION = "q"  # so begins a question's id in the table: those of tokens are hexadecimal


def question_id(caller: str, request_id: str) -> str:
    """The id in the table of what was asked and is not answered yet; see gateway/questions.py."""
    return QUESTION + sha256(f"{request_id}\n{caller}".encode()).hexdigest()[:31]


class Transactions(Protocol):
    """A database, as far as it is needed here; see gateway.ledger.database."""

    def read(self) -> AbstractContextManager[Connection]:
        """A transaction that only reads."""
        ...

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction that is committed at the end of the block, or not at all."""
        ...


@dataclass(frozen=True)
class Left:
    """An interrupted stream: what is to be kept for it under which token."""

    token: Token
    caller: str
    request_id: str
    snapshot: bytes


@dataclass(frozen=True)
class Taken:
    """An interrupted stream that is now this gateway's to go on with; ``id`` is its token's."""

    request_id: str
    snapshot: bytes
    id: str = field(compare=False)


class Kept:
    """Every method is one transaction, and may be called from any thread; times in Unix seconds.

    Raises what the database raises.
    """

    def __init__(self, database: Transactions, seal: Seal) -> None:
        self._database = database
        self._seal = seal

    def keep(self, streams: Sequence[Left], now: float) -> None:
        """Keep these; what was kept of the same requests before is of no use any more."""
        if streams:
            with self._database.write() as connection:
                self._keep(connection, streams, now)

    def adopt(self, connection: Connection, orphans: Sequence[Orphan]) -> None:
        """Keep what killed gateways had in hand, in a transaction of the ledger."""
        now = time.time()
        streams = [
            Left(self._seal.token(one.caller, now), one.caller, one.request_id, one.snapshot)
            for one in orphans
        ]
        self._keep(connection, streams, now)

    def _keep(self, connection: Connection, streams: Sequence[Left], now: float) -> None:
        rows = [
            {
                "id": left.token.id,
                "request_id": left.request_id,
                "caller": left.caller,
                "sealed": self._seal.seal(left.snapshot, left.token.id, left.caller),
                "expires_at": moment(left.token.expires_at),
            }
            for left in streams
        ]
        for left in streams:
            connection.execute(
                update(resumptions)
                .where(
                    resumptions.c.caller == left.caller,
                    resumptions.c.request_id == left.request_id,
                    resumptions.c.used_at.is_(None),
                )
                .values(used_at=moment(now), sealed=_WIPED)
            )
        if rows:
            connection.execute(insert(resumptions), rows)

    def take(self, token: str, caller: str, now: float) -> Taken | NotGood:
        """Take up what a token stands for."""
        opened = self._seal.open(token, caller, now)
        if isinstance(opened, NotGood):
            return opened
        with self._database.write() as connection:
            found = connection.execute(
                select(resumptions).where(
                    resumptions.c.id == opened.id, resumptions.c.caller == caller
                )
            ).first()
            return self._take(connection, found, now)

    def take_request(self, request_id: str, caller: str, now: float) -> Taken | NotGood:
        """Take up a request of the caller that was cut off without a token."""
        newest_first = (resumptions.c.used_at.is_not(None), resumptions.c.expires_at.desc())
        asked = question_id(caller, request_id)
        with self._database.write() as connection:
            found = connection.execute(
                select(resumptions)
                .where(
                    resumptions.c.caller == caller,
                    resumptions.c.request_id == request_id,
                    resumptions.c.id != asked,
                )
                .order_by(*newest_first)
            ).first()
            return self._take(connection, found, now)

    def give_back(self, taken: Taken, caller: str) -> None:
        """Undo taking something up that could not be gone on with: its token is good again."""
        sealed = self._seal.seal(taken.snapshot, taken.id, caller)
        with self._database.write() as connection:
            connection.execute(
                update(resumptions)
                .where(resumptions.c.id == taken.id)
                .values(used_at=None, sealed=sealed)
            )

    def forget(self, now: float) -> int:
        """Delete what has expired, and return how many."""
        with self._database.write() as connection:
            done = connection.execute(
                delete(resumptions).where(resumptions.c.expires_at <= moment(now))
            )
            return done.rowcount

    def _take(
        self, connection: Connection, found: Row[tuple[object, ...]] | None, now: float
    ) -> Taken | NotGood:
        if found is None:
            return NotGood(Why.NOT_KEPT)
        row = found._mapping  # noqa: SLF001 -- a row's public view of its names
        if row["used_at"] is not None:
            return NotGood(Why.SPENT)
        if row["expires_at"] <= moment(now):
            return NotGood(Why.EXPIRED)
        snapshot = self._seal.unseal(row["sealed"], row["id"], row["caller"])
        if isinstance(snapshot, NotGood):
            return snapshot
        # Whoever waited here for another replica finds that it was used.
        done = connection.execute(
            update(resumptions)
            .where(resumptions.c.id == row["id"], resumptions.c.used_at.is_(None))
            .values(used_at=moment(now), sealed=_WIPED)
        )
        if done.rowcount != 1:
            return NotGood(Why.SPENT)
        return Taken(row["request_id"], snapshot, row["id"])
