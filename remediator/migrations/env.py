"""What Alembic runs: the migrations that are missing, within the transaction it is given."""

from alembic import context

from remediator.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite's driver is kept from beginning transactions (fleet/database.py), so it can.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
