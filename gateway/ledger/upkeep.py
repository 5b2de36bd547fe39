"""I/O: what SQLite would do at a commit, and whoever waits for that commit would wait for.

One thread syncs the log, so that what was committed survives a power cut. Another one brings the
file up to the log. Both may take as long as the disk does: no commit waits for them, except the
first one after the file was brought up, which begins the log anew.
"""

from functools import partial

from gateway.ledger.chore import Chore
from gateway.ledger.database import Database

SYNC_EVERY = 0.1
CHECKPOINT_EVERY = 5.0
# What is committed meanwhile needs another one: SQLite begins its log anew only where nothing is
# left to do.
MOST_AT_ONCE = 5


class Upkeep:
    """What is done while it is started; nothing on PostgreSQL, which does it itself."""

    def __init__(self, database: Database) -> None:
        self._chores: tuple[Chore, ...] = ()
        if database.folder is not None:
            self._chores = (
                Chore("synced", SYNC_EVERY, database.sync),
                Chore("checkpointed", CHECKPOINT_EVERY, partial(checkpoint, database)),
            )

    def start(self) -> None:
        """Begin."""
        for chore in self._chores:
            chore.start()

    def stop(self) -> None:
        """End, with what is left to do."""
        for chore in self._chores:
            chore.stop()


def checkpoint(database: Database) -> None:
    """Bring SQLite's file up to its log. While it fails, SQLite does it itself, later."""
    before = database.checkpoint()
    for _ in range(MOST_AT_ONCE - 1):
        pages = database.checkpoint()
        if pages <= before:
            break
        before = pages
