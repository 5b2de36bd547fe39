"""The remediator's database as a whole."""

from collections.abc import Callable
from pathlib import Path

from remediator.attempts import Attempts
from remediator.database import Database
from remediator.holds import Holds
from remediator.incidents import Incidents
from remediator.records import Records


class Store:
    """Everything that is remembered. Raises StorageError where it cannot be opened."""

    def __init__(self, url: str, *, database: Callable[[str], Database] = Database) -> None:
        """``url`` is SQLAlchemy's; what is missing there is made."""
        self.database = database(url)
        self.incidents = Incidents(self.database)
        self.attempts = Attempts(self.database)
        self.holds = Holds(self.database)
        self.records = Records(self.database)

    @property
    def folder(self) -> Path | None:
        """Where the database's file stands; None where it is not a file."""
        return self.database.folder

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
