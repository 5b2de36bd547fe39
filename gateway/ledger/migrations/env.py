"""What Alembic runs: the migrations that are missing, within the transaction it is given."""

from alembic import context

from gateway.ledger.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    # SQLite's driver is kept from beginning transactions (fleet/database.py), so it can.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
