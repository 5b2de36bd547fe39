"""How the ledger of each version becomes that of the next; Alembic runs what stands here."""
