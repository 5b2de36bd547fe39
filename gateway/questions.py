"""I/O: questions that are not answered yet, kept beside interrupted streams in the same table.

Invariant: at most one is kept of each request, and is there until something of its answer is
charged, or it expires. Who may answer it is up to the bill, which admits a request once.
"""

from sqlalchemy import Connection, delete, func, select

from gateway.kept import QUESTION, Transactions, question_id, resumptions
from gateway.ledger.rows import insert_into
from gateway.ledger.tables import moment
from gateway.question import Question
from gateway.seal import NotGood, Seal, Why


class Questions:
    """Every method is one transaction, and may be called from any thread; times in Unix seconds.

    ``good_for`` is in seconds. ``most``: how many are kept of one caller; where several are asked
    at the very same moment, PostgreSQL may let so many more in. Raises what the database raises.
    """

    def __init__(self, database: Transactions, seal: Seal, good_for: float, most: int) -> None:
        self._database = database
        self._seal = seal
        self._good_for = good_for
        self._most = most

    def keep(self, question: Question, now: float) -> bool:
        """Keep it durably, in place of one of the same name; tells whether there was room."""
        name, caller = question_id(question.caller, question.request_id), question.caller
        row = {
            "id": name,
            "request_id": question.request_id,
            "caller": caller,
            "sealed": self._seal.seal(question.to_bytes(), name, caller),
            "expires_at": moment(now + self._good_for),
            "used_at": None,
        }
        with self._database.write() as connection:
            if self._others(connection, name, caller, now) >= self._most:
                return False
            statement = insert_into(connection.dialect.name)(resumptions).values(row)
            connection.execute(
                statement.on_conflict_do_update(index_elements=[resumptions.c.id], set_=row)
            )
        return True

    @staticmethod
    def _others(connection: Connection, name: str, caller: str, now: float) -> int:
        found = connection.scalar(
            select(func.count()).where(
                resumptions.c.caller == caller,
                resumptions.c.id.startswith(QUESTION),
                resumptions.c.id != name,
                resumptions.c.used_at.is_(None),
                resumptions.c.expires_at > moment(now),
            )
        )
        return found or 0

    def find(self, request_id: str, caller: str, now: float) -> Question | NotGood:
        """Return it, and leave it there."""
        name = question_id(caller, request_id)
        with self._database.read() as connection:
            row = connection.execute(select(resumptions).where(resumptions.c.id == name)).first()
        if row is None or row.used_at is not None:
            return NotGood(Why.NOT_KEPT)
        if row.expires_at <= moment(now):
            return NotGood(Why.EXPIRED)
        plain = self._seal.unseal(row.sealed, name, caller)
        if isinstance(plain, NotGood):
            return plain
        return Question.from_bytes(plain, request_id, caller)

    def drop(self, request_id: str, caller: str) -> None:
        """Delete it."""
        name = question_id(caller, request_id)
        with self._database.write() as connection:
            connection.execute(delete(resumptions).where(resumptions.c.id == name))
