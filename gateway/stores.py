"""I/O: what a gateway keeps in its database: the bill, interrupted streams, and questions."""

from fleet.gateway import GatewaySettings
from gateway.kept import Kept
from gateway.ledger.database import SyncedDatabase
from gateway.ledger.ledger import Ledger
from gateway.questions import Questions
from gateway.seal import Seal


class Stores:
    """Opened at once; the ledger begins with its ``start``.

    Raises StorageError, and JournalError where the journal's folder cannot be used.
    """

    def __init__(self, ours: GatewaySettings, seal: Seal) -> None:
        self.seal = seal
        # Rare, and a client is told that it can go on with it: synced before that.
        shared = SyncedDatabase(ours.database)
        self.kept = Kept(shared, seal)
        self.questions = Questions(shared, seal, ours.resume_for, ours.questions_per_caller)
        self.ledger = Ledger(
            ours.database,
            ours.journal_folder,
            takeover_after=ours.takeover_after,
            keep=self.kept.adopt,
        )
