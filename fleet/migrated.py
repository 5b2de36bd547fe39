"""The tables of a database, brought up to what this version of the program knows.

Everything happens in one transaction, and one program does it at a time: whoever comes second
finds it done. A program that is killed meanwhile leaves the tables as they were.
"""

import logging
import threading
from dataclasses import dataclass

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

# It tells each step in words of its own; what came of it is told by whoever asked for it.
logging.getLogger("alembic").setLevel(logging.WARNING)

_one_at_a_time = threading.Lock()


class TooNewError(Exception):
    """The database was made by a newer version of the program; one sentence."""


@dataclass(frozen=True)
class Upgrade:
    """From which revision to which; ``before`` None is from nothing."""

    before: str | None
    now: str


@dataclass(frozen=True)
class Tables:
    """The tables of one program. Raises TooNewError where a newer version has been there.

    ``migrations`` is where Alembic finds its scripts, ``version_table`` where the database keeps
    the revision. ``lock`` is any number, as long as nobody else in the database locks it.
    ``before`` is a table and the revision that tables without a revision have, if that table is
    among them.
    """

    migrations: str
    version_table: str
    lock: int
    before: tuple[str, str] | None = None

    def is_current(self, connection: Connection) -> bool:
        """Whether there is nothing to do."""
        return self._revision(connection) == self.newest

    def upgrade(self, connection: Connection) -> Upgrade | None:
        """Make or change the tables within the transaction of ``connection``.

        None where another program has done it meanwhile.
        """
        if connection.dialect.name == "postgresql":
            # SQLite has one writer at a time; here it has to be said.
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": self.lock})
        revision = self._revision(connection)
        if revision == self.newest:
            return None
        config = self._config
        config.attributes["connection"] = connection
        with _one_at_a_time:  # Alembic's context is one for the whole process
            if revision is None and self.before is not None:
                table, known = self.before
                if inspect(connection).has_table(table):
                    revision = known
                    command.stamp(config, revision)
            command.upgrade(config, "head")
        return Upgrade(revision, self.newest)

    @property
    def newest(self) -> str:
        """The revision that this version of the program knows."""
        return str(ScriptDirectory.from_config(self._config).get_current_head())

    def _revision(self, connection: Connection) -> str | None:
        """The revision of the tables, None where none is written down."""
        if not inspect(connection).has_table(self.version_table):
            return None
        query = f"SELECT version_num FROM {self.version_table}"  # noqa: S608 -- a constant
        found = connection.scalar(text(query))
        if found is None:
            return None
        revision = str(found)
        scripts = ScriptDirectory.from_config(self._config).walk_revisions()
        if revision not in {script.revision for script in scripts}:
            raise TooNewError(
                f"was last used by a newer version of the program (its revision is {revision!r}, "
                f"this version knows none after {self.newest!r})"
            )
        return revision

    @property
    def _config(self) -> Config:
        config = Config()
        config.set_main_option("script_location", self.migrations)
        return config
