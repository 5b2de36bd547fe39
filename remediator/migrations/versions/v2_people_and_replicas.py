"""Holds, given-up backends, foreign restarts, and several remediators on one database."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Add columns, each with what it means for the rows that are there, and the new tables."""
    for name, standard in (("origin", "alert"), ("asked_by", ""), ("asked_why", "")):
        kind = sa.String(32) if name == "origin" else sa.Text()
        op.add_column("incidents", sa.Column(name, kind, nullable=False, server_default=standard))
    op.add_column("incidents", sa.Column("answers", sa.Text))
    op.add_column("decisions", sa.Column("answers", sa.Text))
    op.add_column("attempts", sa.Column("drained", sa.Text, nullable=False, server_default=""))
    op.add_column("attempts", sa.Column("shadow_outcome", sa.String(32)))
    op.create_index("attempts_of_backend", "attempts", ["backend", "planned_at"])
    op.create_table(
        "holds",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("backend", sa.String(128), nullable=False),
        sa.Column("since", sa.DateTime, nullable=False),
        sa.Column("until", sa.DateTime, nullable=False),
        sa.Column("held_by", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("released_at", sa.DateTime),
        sa.Column("released_by", sa.Text, nullable=False),
    )
    op.create_index("holds_in_force", "holds", ["until", "released_at"])
    op.create_table(
        "backends",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("given_up_at", sa.DateTime),
        sa.Column("given_up_why", sa.Text, nullable=False),
        sa.Column("reset_at", sa.DateTime),
        sa.Column("reset_by", sa.Text, nullable=False),
    )
    op.create_table(
        "starts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("backend", sa.String(128), nullable=False),
        sa.Column("started_at", sa.DateTime, nullable=False),
        sa.Column("seen_at", sa.DateTime, nullable=False),
        sa.Column("whose", sa.String(32), nullable=False),
        sa.Column("attempt_id", sa.Integer, sa.ForeignKey("attempts.id")),
        sa.UniqueConstraint("backend", "started_at"),
    )
    op.create_table(
        "locks",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("holder", sa.String(64), nullable=False),
    )
    op.create_table(
        "replicas",
        sa.Column("holder", sa.String(64), primary_key=True),
        sa.Column("beat", sa.Integer, nullable=False),
        sa.Column("seen_at", sa.DateTime, nullable=False),
    )
