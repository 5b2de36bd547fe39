"""A real PostgreSQL: what a lost database does, and how a password is given and kept."""

import json
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from demo.postgresql import PASSWORD, USER, PostgreSQL
from fleet.family import registry
from remediator import tables
from remediator.collector import RemediatorCollector
from remediator.database import StorageError
from remediator.desk import Desk
from remediator.incident import AttemptState
from remediator.journal import Journal
from remediator.notification import Status
from remediator.recovery import Aftermath
from remediator.store import Store
from remediator.webhook import create_app
from tests.remediator import making
from tests.remediator.fakes import Clock, FakeLoop
from tests.remediator.making import alert, at
from tests.remediator.stage import Stage
from tests.remediator.test_notification import body, one
from tests.remediator.test_webhook import TOKEN


def test_a_connection_that_is_lost_in_a_transaction_leaves_nothing_half_done(
    postgresql: PostgreSQL,
) -> None:
    store = Store(postgresql.database())
    with pytest.raises(StorageError) as raised, store.database.write() as connection:  # noqa: PT012
        connection.execute(insert(tables.locks).values(name="half", holder="done"))
        assert postgresql.cut() >= 1
        connection.execute(insert(tables.locks).values(name="other", holder="half"))
    assert "terminating connection" in str(raised.value)
    with store.database.read() as connection:  # and it is connected anew
        assert connection.execute(text("SELECT * FROM locks")).all() == []
    store.close()


def test_an_attempt_is_not_made_whose_step_could_not_be_written(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    with Stage(tmp_path, url=postgresql.database()) as stage:
        stage.evidence.while_saving = postgresql.stop
        stage.tell()
        with pytest.raises(StorageError):
            stage.remedy.consider(stage.incident.id, lambda: True)
        assert stage.restarter.restarted == []
        postgresql.start()
        stage.evidence.while_saving = lambda: None
        assert stage.states == [AttemptState.PLANNED]
        stage.witness.afterwards = Aftermath(None, "not yet")
        stage.pass_(60)
        assert stage.states == [AttemptState.INTERRUPTED, AttemptState.STARTING]
        assert stage.restarter.restarted == ["gpu-a"]


def test_a_webhook_says_503_while_the_database_is_away_and_is_taken_up_after_that(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n")
    limits = making.limits(token_file=tmp_path / "token")
    store, journal, clock = Store(postgresql.database()), Journal(), Clock(at(60))
    own = registry(RemediatorCollector(limits.mode, ("gpu-a",), store, journal, clock))
    client = create_app(
        Desk(limits, store, journal, FakeLoop(), own, clock, making.settings())
    ).test_client()

    def post() -> int:
        return client.post("/api/alerts", data=body(one()), headers=TOKEN).status_code

    assert post() == 200
    postgresql.stop()
    refused = client.post("/api/alerts", data=body(one(fingerprint="b")), headers=TOKEN)
    assert refused.status_code == 503
    assert "does not answer as it should" in json.loads(refused.data)["error"]
    assert client.get("/-/ready").status_code == 503
    postgresql.start()
    assert (
        client.post("/api/alerts", data=body(one(fingerprint="b")), headers=TOKEN).status_code
        == 200
    )
    assert len(store.incidents.open()) == 2
    assert client.get("/-/ready").status_code == 200
    store.close()


def test_one_that_stalls_in_a_transaction_does_not_hold_up_the_others_for_ever(
    postgresql: PostgreSQL,
) -> None:
    store = Store(postgresql.database())
    with store.database.read() as connection:
        found = {
            name: connection.execute(text(f"SHOW {name}")).scalar_one()
            for name in (
                "idle_in_transaction_session_timeout",
                "lock_timeout",
                "transaction_isolation",
            )
        }
    store.close()
    assert found == {
        "idle_in_transaction_session_timeout": "10s",
        "lock_timeout": "5s",
        "transaction_isolation": "read committed",
    }


def test_a_password_is_in_no_error_and_no_log(
    postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("DEBUG")
    url = postgresql.database()
    with pytest.raises(StorageError) as raised:
        Store(url.replace("correct", "wrong"))
    assert "password authentication failed" in str(raised.value)
    with Stage(tmp_path, url=url) as stage:
        stage.tell()
        postgresql.cut()
        stage.turn()
        stage.tell(alert(status=Status.RESOLVED, ends_at=at(70)))
    told = caplog.text + str(raised.value) + repr(stage.store.database.__dict__)
    assert "horse" not in told


WAYS = {
    "PGPASSFILE": (
        "127.0.0.1:{port}:{database}:{user}:{password}\n",
        "postgresql+psycopg://{user}@127.0.0.1:{port}/{database}",
    ),
    "PGSERVICEFILE": (
        "[it]\nhost=127.0.0.1\nport={port}\ndbname={database}\nuser={user}\npassword={password}\n",
        "postgresql+psycopg://?service=it",
    ),
}


@pytest.mark.parametrize(("variable", "way"), WAYS.items(), ids=list(WAYS))
def test_the_password_need_not_stand_in_the_url(
    postgresql: PostgreSQL,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    way: tuple[str, str],
) -> None:
    database = postgresql.database().rpartition("/")[2]
    content, url = (
        text.format(port=postgresql.port, database=database, user=USER, password=PASSWORD)
        for text in way
    )
    file = tmp_path / "secret"
    file.write_text(content)
    file.chmod(0o600)
    monkeypatch.setenv(variable, str(file))
    store = Store(url)
    assert store.folder is None
    assert store.incidents.open() == ()
    store.close()
