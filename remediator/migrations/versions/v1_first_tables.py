"""The tables that the program made by itself before there were migrations."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make incidents, decisions and attempts."""
    op.create_table(
        "incidents",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("starts_at", sa.DateTime, nullable=False),
        sa.Column("ends_at", sa.DateTime),
        sa.Column("alertname", sa.String(128), nullable=False),
        sa.Column("backend", sa.String(128), nullable=False),
        sa.Column("engine", sa.String(128)),
        sa.Column("remediate", sa.String(128), nullable=False),
        sa.Column("symptom", sa.String(32), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("opened_at", sa.DateTime, nullable=False),
        sa.Column("heard_at", sa.DateTime, nullable=False),
        sa.Column("next_look_at", sa.DateTime, nullable=False),
        sa.Column("closed_at", sa.DateTime),
        sa.Column("action", sa.String(32)),
        sa.Column("reason", sa.String(32)),
        sa.Column("until", sa.DateTime),
        sa.Column("why", sa.Text, nullable=False),
        sa.UniqueConstraint("fingerprint", "starts_at"),
    )
    op.create_index("incidents_due", "incidents", ["state", "next_look_at"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("incident_id", sa.Integer, sa.ForeignKey("incidents.id"), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("until", sa.DateTime),
        sa.Column("why", sa.Text, nullable=False),
    )
    op.create_index("ix_decisions_incident_id", "decisions", ["incident_id"])
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("incident_id", sa.Integer, sa.ForeignKey("incidents.id"), nullable=False),
        sa.Column("backend", sa.String(128), nullable=False),
        sa.Column("engine", sa.String(128)),
        sa.Column("mode", sa.String(32), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("planned_at", sa.DateTime, nullable=False),
        sa.Column("acting_at", sa.DateTime),
        sa.Column("starting_at", sa.DateTime),
        sa.Column("ended_at", sa.DateTime),
        sa.Column("before", sa.Text),
        sa.Column("start_time_after", sa.Float),
        sa.Column("exit_status", sa.Integer),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("evidence", sa.Text),
        sa.Column("why", sa.Text, nullable=False),
    )
    op.create_index("ix_attempts_incident_id", "attempts", ["incident_id"])
    under_way = sa.text("state IN ('planned', 'acting', 'starting')")
    op.create_index(
        "attempts_one_under_way",
        "attempts",
        ["backend"],
        unique=True,
        sqlite_where=under_way,
        postgresql_where=under_way,
    )
