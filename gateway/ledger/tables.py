"""The ledger's tables. Times are stored in UTC.

Whatever changes here needs a migration (gateway/ledger/migrations/versions) that changes it in the
databases that there are.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()
# SQLite numbers rows by itself only where it is called INTEGER.
Number = BigInteger().with_variant(Integer, "sqlite")
VERSION_TABLE = "ledger_version"

requests = Table(
    "requests",
    metadata,
    Column("id", Number, primary_key=True),
    Column("caller", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("idempotency_key", Text),
    Column("model", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("finish_reason", Text, nullable=False),
    Column("started_at", DateTime, nullable=False),
    Column("ended_at", DateTime),
    Column("run", Text, nullable=False),
    Column("holder", String(64)),
    UniqueConstraint("caller", "request_id", name="requests_once"),
    UniqueConstraint("caller", "idempotency_key", name="requests_once_a_key"),
    Index("requests_by_start", "started_at"),
    Index("requests_in_hand", "holder"),
)

runs = Table(
    "runs",
    metadata,
    Column("run", Text, primary_key=True),
    Column("request", Number, ForeignKey("requests.id"), nullable=False, index=True),
    Column("completion_tokens", BigInteger, nullable=False),
)

legs = Table(
    "legs",
    metadata,
    Column("id", Number, primary_key=True),
    Column("request", Number, ForeignKey("requests.id"), nullable=False, index=True),
    Column("run", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("backend", Text, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("how", Text, nullable=False),
    Column("ended_at", DateTime, nullable=False),
    UniqueConstraint("run", "number", name="legs_once"),
)

gateways = Table(
    "gateways",
    metadata,
    Column("holder", String(64), primary_key=True),
    Column("beat", BigInteger, nullable=False),
    Column("seen_at", DateTime, nullable=False),
    Column("progress", LargeBinary, nullable=False),
)

marks = Table(
    "marks",
    metadata,
    Column("id", Number, primary_key=True),
    Column("backend", Text, nullable=False),
    Column("at", DateTime, nullable=False),
    Column("why", Text, nullable=False),
    Column("process_start", Float),
    Column("prompt_tokens", BigInteger),
    Column("generation_tokens", BigInteger),
    Column("finished", BigInteger),
    Column("last_leg", BigInteger, nullable=False),
    Column("open_legs", Integer, nullable=False),
    Column("open_prompt", BigInteger, nullable=False),
    Column("open_completion", BigInteger, nullable=False),
    Index("marks_of_backend", "backend", "id"),
)


def moment(at: float) -> datetime:
    """Unix seconds as they are stored."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def seconds(moment: datetime) -> float:
    """What is stored, in Unix seconds."""
    return moment.replace(tzinfo=UTC).timestamp()
