"""I/O: lets a new request of one gateway in, the short way.

Nearly all requests are new ones: a row is written that is not there yet, and no more. SQLAlchemy's
way to do that takes ten times as long, and a client's first token waits for it.
"""

from gateway.bill import Admission
from gateway.ledger.admit import Answer, Asked
from gateway.ledger.database import Database
from gateway.ledger.rows import insert_new, new_row
from gateway.ledger.tables import requests

_COLUMNS = tuple(column.name for column in requests.columns if column is not requests.c.id)


class Door:
    """Of one gateway; belongs to one thread."""

    def __init__(self, database: Database, holder: str) -> None:
        self._database = database
        self._holder = holder
        self._insert = database.prepared(insert_new(database.kind), _COLUMNS)

    def let_in(self, asked: Asked) -> Answer | None:
        """Let it in as a transaction of its own; None: there is one of its id or key already.

        Raises StorageError.
        """
        if self._insert.execute(new_row(asked.opened, asked.run, self._holder)) == 0:
            return None
        self._database.committed()
        return Answer(Admission.NEW)
