"""One statement that is executed again and again, each time a transaction of its own."""

import sqlite3
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    DateTime,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    create_engine,
    event,
    select,
    update,
)

from demo.postgresql import PostgreSQL
from fleet.prepared import Prepared

WAIT = 30.0
AT = datetime(2026, 3, 1, 12, 30, 0, 123456)  # noqa: DTZ001 -- stored without one

metadata = MetaData()
things = Table(
    "things",
    metadata,
    Column("name", Text, primary_key=True),
    Column("times", Integer, nullable=False),
    Column("at", DateTime),
    Column("share", Float),
    Column("data", LargeBinary),
)
STATEMENT = (
    update(things)
    .where(things.c.name == bindparam("which"))
    .values(
        times=things.c.times + 1,
        at=bindparam("at"),
        share=bindparam("share"),
        data=bindparam("data"),
    )
)
VALUES = {"which": "a", "at": AT, "share": 0.5, "data": b"\x00'%s\xff"}


class ToldError(Exception):
    """What is raised out of what the driver raises."""


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(things.insert().values(name="a", times=0))
        connection.execute(things.insert().values(name="b", times=0))
    yield engine
    engine.dispose()


@pytest.fixture
def prepared(engine: Engine) -> Iterator[Prepared]:
    prepared = Prepared(engine, STATEMENT, lambda error: ToldError(type(error).__name__))
    yield prepared
    prepared.close()


def row(engine: Engine, name: str = "a") -> tuple[Any, ...]:
    with engine.connect() as connection:
        return tuple(connection.execute(select(things).where(things.c.name == name)).one())


def test_what_is_executed_is_there_for_all_and_only_where_it_belongs(
    engine: Engine, prepared: Prepared
) -> None:
    assert prepared.execute(VALUES) == 1
    assert row(engine) == ("a", 1, AT, 0.5, VALUES["data"])
    assert prepared.execute(VALUES | {"at": None, "data": None}) == 1
    assert row(engine) == ("a", 2, None, 0.5, None)
    assert row(engine, "b") == ("b", 0, None, None, None)


def test_values_are_stored_as_sqlalchemy_stores_them(engine: Engine, prepared: Prepared) -> None:
    at = AT.replace(microsecond=0)
    prepared.execute(VALUES | {"at": at})
    with engine.connect() as connection:
        query = select(things.c.name).where(things.c.at == at)
        assert connection.scalars(query).all() == ["a"]


def test_where_there_is_no_row_it_says_so(engine: Engine, prepared: Prepared) -> None:
    assert prepared.execute(VALUES | {"which": "c"}) == 0
    assert row(engine) == ("a", 0, None, None, None)


def test_others_write_between_and_nothing_stays_locked(engine: Engine, prepared: Prepared) -> None:
    for number in range(5):
        assert prepared.execute(VALUES) == 1
        with engine.begin() as connection:
            done = connection.execute(update(things).values(times=things.c.times + 10))
            assert done.rowcount == 2
        assert row(engine)[1] == 11 * (number + 1)


def test_it_waits_for_its_turn(engine: Engine, prepared: Prepared) -> None:
    rows: list[int] = []
    waiting = threading.Thread(target=lambda: rows.append(prepared.execute(VALUES)))
    with engine.begin() as connection:
        connection.execute(update(things).values(times=5))
        waiting.start()
        waiting.join(0.2)
        assert rows == []
    waiting.join(WAIT)
    assert rows == [1]
    assert row(engine)[1] == 6


def test_after_a_failure_it_begins_anew(engine: Engine, prepared: Prepared) -> None:
    assert prepared.execute(VALUES) == 1
    metadata.drop_all(engine)
    for _ in range(2):
        with pytest.raises(ToldError):
            prepared.execute(VALUES)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(things.insert().values(name="a", times=0))
    assert prepared.execute(VALUES) == 1
    assert row(engine)[1] == 1


def test_a_connection_that_was_cut_is_opened_anew_at_once(postgresql: PostgreSQL) -> None:
    engine = create_engine(postgresql.database(), pool_pre_ping=True)
    metadata.create_all(engine)
    prepared = Prepared(engine, STATEMENT, lambda error: ToldError(type(error).__name__))
    for _ in range(2):
        assert prepared.execute(VALUES) == 0
        postgresql.cut()
    assert prepared.execute(VALUES) == 0
    prepared.close()
    engine.dispose()


def test_where_the_server_is_gone_it_says_so() -> None:
    with PostgreSQL() as server:
        engine = create_engine(server.database(), pool_pre_ping=True)
        metadata.create_all(engine)
        prepared = Prepared(engine, STATEMENT, lambda error: ToldError(type(error).__name__))
        assert prepared.execute(VALUES) == 0
        server.stop()
        for _ in range(2):
            with pytest.raises(ToldError, match="OperationalError"):
                prepared.execute(VALUES)
        prepared.close()
        engine.dispose()


def test_one_that_is_refused_is_not_tried_twice(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'one.db'}", connect_args={"timeout": 0.0})
    metadata.create_all(engine)
    opened: list[object] = []
    event.listen(engine, "connect", lambda connection, _: opened.append(connection))
    prepared = Prepared(engine, STATEMENT, lambda error: ToldError(str(error)))
    assert prepared.execute(VALUES) == 0
    other = sqlite3.connect(tmp_path / "one.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    del opened[:]
    with pytest.raises(ToldError, match="database is locked"):
        prepared.execute(VALUES)
    assert opened == []
    other.close()
    prepared.close()
    engine.dispose()


def test_it_takes_no_connection_from_others_and_leaves_none(
    engine: Engine, prepared: Prepared
) -> None:
    prepared.execute(VALUES)
    assert engine.pool.status().endswith("Current Checked out connections: 0")
    prepared.close()
    prepared.close()
    metadata.drop_all(engine)
