from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import pytest
from sqlalchemy import text

from fleet.reading import EngineReading, Reading
from fleet.settings import Mode
from remediator.attempts import Attempts, UnderWayError
from remediator.database import StorageError
from remediator.decision import RESOLVED, Decision, Hold, Ignore, Reason
from remediator.incident import UNDER_WAY, AttemptState, IncidentState
from remediator.notification import Status
from tests.remediator.making import alert, at, reading

FOREVER = at(1e6)


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Attempts]:
    storage = Attempts(f"sqlite:///{tmp_path / 'remediator.db'}")
    yield storage
    storage.close()


def test_sqlite_is_set_so_that_what_was_committed_survives(attempts: Attempts) -> None:
    with attempts._database.read() as connection:
        found = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_an_alert_is_one_incident_however_often_it_is_told(attempts: Attempts) -> None:
    for seconds in range(3):
        attempts.note([alert(), alert()], at(seconds))
    (only,) = attempts.due(FOREVER)
    assert only.opened_at == at(0)
    assert only.heard_at == at(2)
    assert (only.fingerprint, only.starts_at) == (alert().fingerprint, alert().starts_at)


def test_another_episode_of_an_alert_is_another_incident(attempts: Attempts) -> None:
    attempts.note([alert(), alert(starts_at=at(60))], at(61))
    assert len(attempts.due(FOREVER)) == 2


def test_times_come_back_in_utc_to_the_microsecond(attempts: Attempts) -> None:
    starts = datetime.fromisoformat("2026-03-01T14:00:00.123456+02:00")
    attempts.note([alert(starts_at=starts)], at(0))
    (only,) = attempts.due(FOREVER)
    assert only.starts_at == starts
    assert str(only.starts_at.tzinfo) == "UTC"


def test_a_time_without_a_zone_is_refused(attempts: Attempts) -> None:
    with pytest.raises(StorageError):
        attempts.note([alert()], datetime(2026, 3, 1))  # noqa: DTZ001 -- what is refused


def test_what_is_resolved_is_closed_with_its_earlier_episodes_and_no_other(
    attempts: Attempts,
) -> None:
    attempts.note(
        [alert(), alert(starts_at=at(5)), alert(starts_at=at(100)), alert(fingerprint="b")], at(101)
    )
    closed = attempts.note([alert(status=Status.RESOLVED, ends_at=at(50))], at(102))
    assert {incident.starts_at for incident in closed} == {at(0), at(5)}
    assert {(i.fingerprint, i.starts_at) for i in attempts.open_incidents()} == {
        (alert().fingerprint, at(100)),
        ("b", at(0)),
    }
    assert [line.reason for line in attempts.newest_decisions(9)] == [Reason.RESOLVED] * 2


def test_what_was_never_heard_of_can_be_resolved(attempts: Attempts) -> None:
    assert attempts.note([alert(status=Status.RESOLVED)], at(0)) == ()


def test_what_was_closed_is_opened_again_by_the_next_notification(attempts: Attempts) -> None:
    attempts.note([alert()], at(0))
    (incident,) = attempts.due(FOREVER)
    attempts.decided(incident, Ignore(Reason.GONE, "gone"), at(30), at(1))
    assert attempts.incident(incident.id).state is IncidentState.CLOSED
    assert attempts.incident(incident.id).closed_at == at(1)
    attempts.note([alert()], at(20))
    again = attempts.incident(incident.id)
    assert again.state is IncidentState.OPEN
    assert again.closed_at is None
    assert again.next_look_at == at(20)


def test_what_is_held_is_due_at_its_next_look(attempts: Attempts) -> None:
    attempts.note([alert()], at(0))
    (incident,) = attempts.due(at(0))
    attempts.decided(incident, Hold(Reason.SILENCED, at(30), "so"), at(30), at(1))
    assert attempts.due(at(29)) == ()
    (held,) = attempts.due(at(30))
    assert (held.reason, held.until, held.why) == (Reason.SILENCED, at(30), "so")
    attempts.look_again(incident.id, at(5))
    assert len(attempts.due(at(5))) == 1


def test_the_journal_takes_changes_only(attempts: Attempts) -> None:
    attempts.note([alert()], at(0))
    story: list[Decision] = [
        Hold(Reason.SILENCED, at(30), "first"),
        Hold(Reason.SILENCED, at(60), "second"),
        Hold(Reason.INHIBITED, at(60), "third"),
        RESOLVED,
    ]
    for seconds, decision in enumerate(story):
        (incident,) = attempts.newest_incidents(1)
        attempts.decided(incident, decision, at(90), at(seconds))
    lines = attempts.newest_decisions(10)
    assert [line.why for line in lines] == ["the alert is resolved", "third", "first"]
    assert [line.at for line in lines] == [at(3), at(2), at(0)]
    assert {line.backend for line in lines} == {"gpu-a"}


def test_an_attempt_keeps_everything_it_is_told(attempts: Attempts) -> None:
    attempts.note([alert()], at(0))
    (incident,) = attempts.due(FOREVER)
    odd = EngineReading(running=1.0, kv_usage=0.5, awake=True, unreadable=frozenset({"flops"}))
    before = Reading(7.5, MappingProxyType({"0": odd, "1": EngineReading()}))
    planned = attempts.plan(incident, Mode.ACT, before, at(1))
    assert planned.state is AttemptState.PLANNED
    assert planned.before == before
    assert planned.last_at == at(1)
    acting = attempts.advance(planned, AttemptState.ACTING, at(2), evidence="there")
    assert (acting.acting_at, acting.last_at) == (at(2), at(2))
    starting = attempts.advance(acting, AttemptState.STARTING, at(3), exit_status=0, output="x")
    assert (starting.starting_at, starting.last_at) == (at(3), at(3))
    ended = attempts.advance(
        starting, AttemptState.RECOVERED, at(4), why="so", start_time_after=9.5
    )
    assert ended == replace(
        planned,
        state=AttemptState.RECOVERED,
        acting_at=at(2),
        starting_at=at(3),
        ended_at=at(4),
        evidence="there",
        exit_status=0,
        output="x",
        why="so",
        start_time_after=9.5,
    )
    assert not ended.under_way


@pytest.mark.parametrize("state", UNDER_WAY)
def test_the_database_itself_refuses_a_second_attempt_under_way(
    attempts: Attempts, state: AttemptState
) -> None:
    attempts.note([alert(), alert(fingerprint="b", backend="gpu-b")], at(0))
    first, other = sorted(attempts.due(FOREVER), key=lambda i: i.backend)
    begun = attempts.plan(first, Mode.ACT, None, at(1))
    if state is not AttemptState.PLANNED:
        attempts.advance(begun, state, at(2))
    with pytest.raises(UnderWayError):
        attempts.plan(first, Mode.SHADOW, None, at(3))
    attempts.plan(other, Mode.ACT, None, at(3))
    attempts.advance(begun, AttemptState.FAILED, at(4))
    attempts.plan(first, Mode.ACT, None, at(5))


def test_what_bears_on_an_incident(attempts: Attempts) -> None:
    attempts.note(
        [alert(fingerprint=name, backend=name, starts_at=at(1000)) for name in "abcde"], at(0)
    )
    a, b, c, d, e = sorted(attempts.due(FOREVER), key=lambda i: i.backend)
    own = attempts.plan(a, Mode.ACT, None, at(1))
    attempts.advance(own, AttemptState.FAILED, at(2))
    old = attempts.plan(b, Mode.ACT, None, at(1))
    attempts.advance(old, AttemptState.FAILED, at(2))
    ended_late = attempts.plan(c, Mode.ACT, None, at(1))
    attempts.advance(ended_late, AttemptState.FAILED, at(600))
    open_long = attempts.plan(d, Mode.ACT, None, at(1))
    recent = attempts.plan(e, Mode.ACT, reading(), at(700))
    attempts.advance(recent, AttemptState.FAILED, at(701))

    def numbers(since: float) -> set[int]:
        return {attempt.id for attempt in attempts.bearing_on(a, at(since))}

    assert numbers(500) == {own.id, ended_late.id, open_long.id, recent.id}
    assert numbers(5000) == {own.id, open_long.id}  # the alert began before that: at 1000
    assert numbers(0) == {own.id, old.id, ended_late.id, open_long.id, recent.id}
    assert {attempt.id for attempt in attempts.under_way()} == {open_long.id}


def test_counts_for_the_metrics(attempts: Attempts) -> None:
    attempts.note([alert()], at(0))
    (incident,) = attempts.due(FOREVER)
    for seconds, mode in ((10, Mode.ACT), (20, Mode.ACT), (30, Mode.SHADOW)):
        tried = attempts.plan(incident, mode, None, at(seconds))
        if mode is Mode.ACT:
            tried = attempts.advance(tried, AttemptState.ACTING, at(seconds + 1))
        attempts.advance(tried, AttemptState.RECOVERED, at(seconds + 2))
    recovered = ("gpu-a", AttemptState.RECOVERED)
    assert attempts.attempt_counts(Mode.ACT) == {recovered: 2}
    assert attempts.attempt_counts(Mode.SHADOW) == {recovered: 1}
    assert attempts.restarts() == {"gpu-a": (2, at(21))}


def test_everything_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'remediator.db'}"
    first = Attempts(url)
    first.note([alert()], at(0))
    first.plan(first.due(FOREVER)[0], Mode.ACT, reading(), at(1))
    first.close()
    second = Attempts(url)
    assert second.folder == tmp_path
    assert second.under_way()[0].before == reading()
    second.close()


URLS = {
    "no URL": ("remediator.db", "is not an SQLAlchemy URL"),
    "a kind of database nobody knows": ("nodb://host/x", "is not an SQLAlchemy URL of a kind"),
    "a driver that is not there": (
        "postgresql+psycopg2://me:hunter2@host/x",
        "its driver is not installed: No module named 'psycopg2'",
    ),
    "in memory": ("sqlite://", "an SQLite database in memory would forget what was done"),
    "in memory by name": ("sqlite:///:memory:", "an SQLite database in memory would forget"),
    "a folder that is not there": (
        "sqlite:////no/such/folder/x.db",
        "the database does not answer as it should: unable to open database file",
    ),
}


@pytest.mark.parametrize(("url", "sentence"), URLS.values(), ids=list(URLS))
def test_a_database_that_cannot_be_used(url: str, sentence: str) -> None:
    with pytest.raises(StorageError) as raised:
        Attempts(url)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_database_that_is_broken_says_so_without_its_values(tmp_path: Path) -> None:
    storage = Attempts(f"sqlite:///{tmp_path / 'remediator.db'}")
    with storage._database.write() as connection:
        connection.execute(text("DROP TABLE decisions"))
        connection.execute(text("DROP TABLE attempts"))
        connection.execute(text("DROP TABLE incidents"))
    with pytest.raises(StorageError) as raised:
        storage.note([alert()], at(0))
    assert str(raised.value) == (
        "the database does not answer as it should: no such table: incidents"
    )
    storage.close()


def test_a_server_database_has_no_folder(attempts: Attempts) -> None:
    class ServerUrl:
        database = "lifeguard"

        @staticmethod
        def get_backend_name() -> str:
            return "postgresql"

    class ServerEngine:
        url = ServerUrl()

    engine, attempts._database._engine = attempts._database._engine, ServerEngine()  # type: ignore[assignment]
    assert attempts.folder is None
    attempts._database._engine = engine
