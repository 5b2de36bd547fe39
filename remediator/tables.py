"""The tables of the database, and how values stand in them. Times are stored in UTC.

Whatever changes here needs a migration (remediator/migrations/versions) that changes it in the
databases that there are.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    Enum,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from fleet.reading import EngineReading, Reading
from fleet.settings import Mode
from remediator.decision import Action, Answer, Reason
from remediator.incident import UNDER_WAY, AttemptState, IncidentState, Origin, ShadowOutcome
from remediator.notification import LABEL_CHARACTERS, Symptom
from remediator.record import Whose


class Utc(TypeDecorator[datetime]):
    """An aware time, stored as UTC without a zone, which every database can hold and compare."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store; a time without a zone is a mistake of ours."""
        del dialect
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Load."""
        del dialect
        return None if value is None else value.replace(tzinfo=UTC)


class ReadingText(TypeDecorator[Reading]):
    """A reading as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Reading | None, dialect: Dialect) -> str | None:
        """Store."""
        del dialect
        if value is None:
            return None
        engines = {
            name: asdict(engine) | {"unreadable": sorted(engine.unreadable)}
            for name, engine in value.engines.items()
        }
        return json.dumps({"start_time": value.start_time, "engines": engines})

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Reading | None:  # noqa: ANN401
        """Load."""
        del dialect
        if value is None:
            return None
        stored = json.loads(value)
        engines = {
            name: EngineReading(**engine | {"unreadable": frozenset(engine["unreadable"])})
            for name, engine in stored["engines"].items()
        }
        return Reading(stored["start_time"], MappingProxyType(engines))


class AnswersText(TypeDecorator[tuple[Answer, ...]]):
    """What the questions of a decision came to, as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[Answer, ...] | None, dialect: Dialect) -> str | None:
        """Store."""
        del dialect
        return None if value is None else json.dumps([asdict(answer) for answer in value])

    def process_result_value(self, value: Any | None, dialect: Dialect) -> tuple[Answer, ...]:  # noqa: ANN401
        """Load."""
        del dialect
        return () if value is None else tuple(Answer(**answer) for answer in json.loads(value))


def _word(words: type[StrEnum]) -> Enum:
    return Enum(
        words,
        native_enum=False,
        create_constraint=False,
        length=32,
        values_callable=lambda found: [word.value for word in found],
    )


metadata = MetaData()

incidents = Table(
    "incidents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("starts_at", Utc, nullable=False),
    Column("ends_at", Utc),
    Column("alertname", String(LABEL_CHARACTERS), nullable=False),
    Column("backend", String(LABEL_CHARACTERS), nullable=False),
    Column("engine", String(LABEL_CHARACTERS)),
    Column("remediate", String(LABEL_CHARACTERS), nullable=False),
    Column("symptom", _word(Symptom), nullable=False),
    Column("state", _word(IncidentState), nullable=False),
    Column("opened_at", Utc, nullable=False),
    Column("heard_at", Utc, nullable=False),
    Column("next_look_at", Utc, nullable=False),
    Column("closed_at", Utc),
    Column("action", _word(Action)),
    Column("reason", _word(Reason)),
    Column("until", Utc),
    Column("why", Text, nullable=False, default=""),
    Column("origin", _word(Origin), nullable=False, server_default=Origin.ALERT),
    Column("asked_by", Text, nullable=False, server_default=""),
    Column("asked_why", Text, nullable=False, server_default=""),
    Column("answers", AnswersText),
    UniqueConstraint("fingerprint", "starts_at"),
    Index("incidents_due", "state", "next_look_at"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("incident_id", ForeignKey("incidents.id"), nullable=False, index=True),
    Column("at", Utc, nullable=False),
    Column("action", _word(Action), nullable=False),
    Column("reason", _word(Reason), nullable=False),
    Column("until", Utc),
    Column("why", Text, nullable=False),
    Column("answers", AnswersText),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("incident_id", ForeignKey("incidents.id"), nullable=False, index=True),
    Column("backend", String(LABEL_CHARACTERS), nullable=False),
    Column("engine", String(LABEL_CHARACTERS)),
    Column("mode", _word(Mode), nullable=False),
    Column("state", _word(AttemptState), nullable=False),
    Column("planned_at", Utc, nullable=False),
    Column("acting_at", Utc),
    Column("starting_at", Utc),
    Column("ended_at", Utc),
    Column("before", ReadingText),
    Column("start_time_after", Float),
    Column("exit_status", Integer),
    Column("output", Text, nullable=False, default=""),
    Column("evidence", Text),
    Column("drained", Text, nullable=False, server_default=""),
    Column("shadow_outcome", _word(ShadowOutcome)),
    Column("why", Text, nullable=False, default=""),
    Index("attempts_of_backend", "backend", "planned_at"),
)

holds = Table(
    "holds",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("backend", String(LABEL_CHARACTERS), nullable=False),
    Column("since", Utc, nullable=False),
    Column("until", Utc, nullable=False),
    Column("held_by", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("released_at", Utc),
    Column("released_by", Text, nullable=False, default=""),
    Index("holds_in_force", "until", "released_at"),
)

backends = Table(
    "backends",
    metadata,
    Column("name", String(LABEL_CHARACTERS), primary_key=True),
    Column("given_up_at", Utc),
    Column("given_up_why", Text, nullable=False, default=""),
    Column("reset_at", Utc),
    Column("reset_by", Text, nullable=False, default=""),
)

starts = Table(
    "starts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("backend", String(LABEL_CHARACTERS), nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("seen_at", Utc, nullable=False),
    Column("whose", _word(Whose), nullable=False),
    Column("attempt_id", ForeignKey("attempts.id")),
    UniqueConstraint("backend", "started_at"),
)

# Which remediator has a backend in hand, and whether that remediator is still there.
locks = Table(
    "locks",
    metadata,
    Column("name", String(LABEL_CHARACTERS), primary_key=True),
    Column("holder", String(64), nullable=False),
)

replicas = Table(
    "replicas",
    metadata,
    Column("holder", String(64), primary_key=True),
    Column("beat", Integer, nullable=False),
    Column("seen_at", Utc, nullable=False),
)

# The database itself refuses a second attempt on a backend while one has not ended.
Index(
    "attempts_one_under_way",
    attempts.c.backend,
    unique=True,
    sqlite_where=attempts.c.state.in_(UNDER_WAY),
    postgresql_where=attempts.c.state.in_(UNDER_WAY),
)
