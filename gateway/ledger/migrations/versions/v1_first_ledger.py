"""The first ledger."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make requests, runs, legs, gateways, marks and resumptions."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "requests",
        sa.Column("id", number, primary_key=True),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("finish_reason", sa.Text, nullable=False),
        sa.Column("started_at", sa.DateTime, nullable=False),
        sa.Column("ended_at", sa.DateTime),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("holder", sa.String(64)),
        sa.UniqueConstraint("caller", "request_id", name="requests_once"),
        sa.UniqueConstraint("caller", "idempotency_key", name="requests_once_a_key"),
    )
    op.create_index("requests_by_start", "requests", ["started_at"])
    op.create_index("requests_in_hand", "requests", ["holder"])
    op.create_table(
        "runs",
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("request", number, sa.ForeignKey("requests.id"), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_runs_request", "runs", ["request"])
    op.create_table(
        "legs",
        sa.Column("id", number, primary_key=True),
        sa.Column("request", number, sa.ForeignKey("requests.id"), nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("how", sa.Text, nullable=False),
        sa.Column("ended_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("run", "number", name="legs_once"),
    )
    op.create_index("ix_legs_request", "legs", ["request"])
    op.create_table(
        "gateways",
        sa.Column("holder", sa.String(64), primary_key=True),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.DateTime, nullable=False),
        sa.Column("progress", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "marks",
        sa.Column("id", number, primary_key=True),
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("process_start", sa.Float),
        sa.Column("prompt_tokens", sa.BigInteger),
        sa.Column("generation_tokens", sa.BigInteger),
        sa.Column("finished", sa.BigInteger),
        sa.Column("last_leg", sa.BigInteger, nullable=False),
        sa.Column("open_legs", sa.Integer, nullable=False),
        sa.Column("open_prompt", sa.BigInteger, nullable=False),
        sa.Column("open_completion", sa.BigInteger, nullable=False),
    )
    op.create_index("marks_of_backend", "marks", ["backend", "id"])
    op.create_table(
        "resumptions",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.DateTime, nullable=False),
        sa.Column("used_at", sa.DateTime),
    )
    op.create_index("resumptions_of_request", "resumptions", ["caller", "request_id"])
    op.create_index("resumptions_by_end", "resumptions", ["expires_at"])
