"""How the tables of each version become those of the next; Alembic runs what stands here."""
