"""The ledger's tables, brought up to what this version of the program knows.

Everything happens in one transaction, and one program does it at a time: whoever comes second
finds it done. A program that is killed meanwhile leaves the tables as they were.
"""

import logging
import threading

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from gateway.ledger.tables import VERSION_TABLE

MIGRATIONS = "gateway.ledger:migrations"
# Any number, as long as nobody else in the database locks it: "BILL" in ASCII.
LOCK = 0x42494C4C

# It tells each step in words of its own.
logging.getLogger("alembic").setLevel(logging.WARNING)

_one_at_a_time = threading.Lock()


class TooNewError(Exception):
    """The database was made by a newer version of the program; one sentence."""


def is_current(connection: Connection) -> bool:
    """Whether there is nothing to do. Raises TooNewError."""
    return _revision(connection) == _newest()


def upgrade(connection: Connection) -> None:
    """Make or change the tables within the transaction of ``connection``. Raises TooNewError."""
    if connection.dialect.name == "postgresql":
        # SQLite has one writer at a time; here it has to be said.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    if is_current(connection):
        return
    config = _config()
    config.attributes["connection"] = connection
    with _one_at_a_time:  # Alembic's context is one for the whole process
        command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    """The revision of the tables, None where none is written down."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 -- a constant
    if found is None:
        return None
    revision = str(found)
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision not in known:
        raise TooNewError(
            f"was last used by a newer version of the program (its revision is {revision!r}, "
            f"this version knows none after {_newest()!r})"
        )
    return revision


def _newest() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    return str(head)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    return config
