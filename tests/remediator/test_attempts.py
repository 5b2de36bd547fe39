import re
import traceback
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import pytest
from sqlalchemy import text

from fleet.reading import EngineReading, Reading
from fleet.settings import Mode
from remediator.attempts import TakenOverError, UnderWayError, bearing_on
from remediator.database import StorageError
from remediator.decision import RESOLVED, Decision, Hold, Ignore, Reason
from remediator.incident import UNDER_WAY, AttemptState, IncidentState
from remediator.notification import Status
from remediator.store import Store
from tests.remediator.making import alert, at, reading
from tests.remediator.stage import planned

FOREVER = at(1e6)


def test_sqlite_is_set_so_that_what_was_committed_survives(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'remediator.db'}")
    with store.database.read() as connection:
        found = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    store.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_an_alert_is_one_incident_however_often_it_is_told(store: Store) -> None:
    for seconds in range(3):
        store.incidents.note([alert(), alert()], at(seconds))
    (only,) = store.incidents.due(FOREVER)
    assert only.opened_at == at(0)
    assert only.heard_at == at(2)
    assert (only.fingerprint, only.starts_at) == (alert().fingerprint, alert().starts_at)


def test_another_episode_of_an_alert_is_another_incident(store: Store) -> None:
    store.incidents.note([alert(), alert(starts_at=at(60))], at(61))
    assert len(store.incidents.due(FOREVER)) == 2


def test_times_come_back_in_utc_to_the_microsecond(store: Store) -> None:
    starts = datetime.fromisoformat("2026-03-01T14:00:00.123456+02:00")
    store.incidents.note([alert(starts_at=starts)], at(0))
    (only,) = store.incidents.due(FOREVER)
    assert only.starts_at == starts
    assert str(only.starts_at.tzinfo) == "UTC"


def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    with pytest.raises(StorageError):
        store.incidents.note([alert()], datetime(2026, 3, 1))  # noqa: DTZ001 -- what is refused


def test_what_is_resolved_is_closed_with_its_earlier_episodes_and_no_other(
    store: Store,
) -> None:
    store.incidents.note(
        [alert(), alert(starts_at=at(5)), alert(starts_at=at(100)), alert(fingerprint="b")], at(101)
    )
    closed = store.incidents.note([alert(status=Status.RESOLVED, ends_at=at(50))], at(102))
    assert {incident.starts_at for incident in closed} == {at(0), at(5)}
    assert {(i.fingerprint, i.starts_at) for i in store.incidents.open()} == {
        (alert().fingerprint, at(100)),
        ("b", at(0)),
    }
    assert [line.reason for line in store.incidents.newest_decisions(9)] == [Reason.RESOLVED] * 2


def test_what_was_never_heard_of_can_be_resolved(store: Store) -> None:
    assert store.incidents.note([alert(status=Status.RESOLVED)], at(0)) == ()


def test_what_was_closed_is_opened_again_by_the_next_notification(store: Store) -> None:
    store.incidents.note([alert()], at(0))
    (incident,) = store.incidents.due(FOREVER)
    store.incidents.decided(incident, Ignore(Reason.GONE, "gone"), at(30), at(1))
    assert store.incidents.incident(incident.id).state is IncidentState.CLOSED
    assert store.incidents.incident(incident.id).closed_at == at(1)
    store.incidents.note([alert()], at(20))
    again = store.incidents.incident(incident.id)
    assert again.state is IncidentState.OPEN
    assert again.closed_at is None
    assert again.next_look_at == at(20)


def test_what_is_held_is_due_at_its_next_look(store: Store) -> None:
    store.incidents.note([alert()], at(0))
    (incident,) = store.incidents.due(at(0))
    store.incidents.decided(incident, Hold(Reason.SILENCED, at(30), "so"), at(30), at(1))
    assert store.incidents.due(at(29)) == ()
    (held,) = store.incidents.due(at(30))
    assert (held.reason, held.until, held.why) == (Reason.SILENCED, at(30), "so")
    store.incidents.look_again(incident.id, at(5))
    assert len(store.incidents.due(at(5))) == 1


def test_the_journal_takes_changes_only(store: Store) -> None:
    store.incidents.note([alert()], at(0))
    story: list[Decision] = [
        Hold(Reason.SILENCED, at(30), "first"),
        Hold(Reason.SILENCED, at(60), "second"),
        Hold(Reason.INHIBITED, at(60), "third"),
        RESOLVED,
    ]
    for seconds, decision in enumerate(story):
        (incident,) = store.incidents.newest(1)
        store.incidents.decided(incident, decision, at(90), at(seconds))
    lines = store.incidents.newest_decisions(10)
    assert [line.why for line in lines] == ["the alert is resolved", "third", "first"]
    assert [line.at for line in lines] == [at(3), at(2), at(0)]
    assert {line.backend for line in lines} == {"gpu-a"}


def test_an_attempt_keeps_everything_it_is_told(store: Store) -> None:
    store.incidents.note([alert()], at(0))
    (incident,) = store.incidents.due(FOREVER)
    odd = EngineReading(running=1.0, kv_usage=0.5, awake=True, unreadable=frozenset({"flops"}))
    before = Reading(7.5, MappingProxyType({"0": odd, "1": EngineReading()}))
    first = planned(store, incident, Mode.ACT, before, at(1))
    assert first.state is AttemptState.PLANNED
    assert first.before == before
    assert first.last_at == at(1)
    acting = store.attempts.advance(first, AttemptState.ACTING, at(2), evidence="there")
    assert (acting.acting_at, acting.last_at) == (at(2), at(2))
    starting = store.attempts.advance(
        acting, AttemptState.STARTING, at(3), exit_status=0, output="x"
    )
    assert (starting.starting_at, starting.last_at) == (at(3), at(3))
    ended = store.attempts.advance(
        starting, AttemptState.RECOVERED, at(4), why="so", start_time_after=9.5
    )
    assert ended == replace(
        first,
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


def test_a_step_that_somebody_else_has_taken_is_not_taken_again(store: Store) -> None:
    store.incidents.note([alert()], at(0))
    begun = planned(store, store.incidents.due(FOREVER)[0], Mode.ACT, None, at(1))
    store.attempts.advance(begun, AttemptState.INTERRUPTED, at(2), why="theirs")
    with pytest.raises(TakenOverError, match=f"attempt {begun.id} is not planned any more"):
        store.attempts.advance(begun, AttemptState.ACTING, at(3), why="ours")
    kept = store.attempts.attempt(begun.id)
    assert (kept.state, kept.why, kept.acting_at) == (AttemptState.INTERRUPTED, "theirs", None)


@pytest.mark.parametrize("state", UNDER_WAY)
def test_the_database_itself_refuses_a_second_attempt_under_way(
    store: Store, state: AttemptState
) -> None:
    store.incidents.note([alert(), alert(fingerprint="b", backend="gpu-b")], at(0))
    first, other = sorted(store.incidents.due(FOREVER), key=lambda i: i.backend)
    begun = planned(store, first, Mode.ACT, None, at(1))
    if state is not AttemptState.PLANNED:
        begun = store.attempts.advance(begun, state, at(2))
    with pytest.raises(UnderWayError):
        planned(store, first, Mode.SHADOW, None, at(3))
    planned(store, other, Mode.ACT, None, at(3))
    store.attempts.advance(begun, AttemptState.FAILED, at(4))
    planned(store, first, Mode.ACT, None, at(5))


def test_what_bears_on_an_incident(store: Store) -> None:
    store.incidents.note(
        [alert(fingerprint=name, backend=name, starts_at=at(1000)) for name in "abcde"], at(0)
    )
    a, b, c, d, e = sorted(store.incidents.due(FOREVER), key=lambda i: i.backend)
    own = planned(store, a, Mode.ACT, None, at(1))
    store.attempts.advance(own, AttemptState.FAILED, at(2))
    old = planned(store, b, Mode.ACT, None, at(1))
    store.attempts.advance(old, AttemptState.FAILED, at(2))
    ended_late = planned(store, c, Mode.ACT, None, at(1))
    store.attempts.advance(ended_late, AttemptState.FAILED, at(600))
    open_long = planned(store, d, Mode.ACT, None, at(1))
    recent = planned(store, e, Mode.ACT, reading(), at(700))
    store.attempts.advance(recent, AttemptState.FAILED, at(701))

    def numbers(since: float) -> set[int]:
        with store.database.read() as connection:
            found = bearing_on(connection, a, at(since))
        return {attempt.id for attempt in found}

    assert numbers(500) == {own.id, ended_late.id, open_long.id, recent.id}
    assert numbers(5000) == {own.id, open_long.id}  # the alert began before that: at 1000
    assert numbers(0) == {own.id, old.id, ended_late.id, open_long.id, recent.id}
    assert {attempt.id for attempt in store.attempts.under_way()} == {open_long.id}


def test_counts_for_the_metrics(store: Store) -> None:
    store.incidents.note([alert()], at(0))
    (incident,) = store.incidents.due(FOREVER)
    for seconds, mode in ((10, Mode.ACT), (20, Mode.ACT), (30, Mode.SHADOW)):
        tried = planned(store, incident, mode, None, at(seconds))
        if mode is Mode.ACT:
            tried = store.attempts.advance(tried, AttemptState.ACTING, at(seconds + 1))
        store.attempts.advance(tried, AttemptState.RECOVERED, at(seconds + 2))
    recovered = ("gpu-a", AttemptState.RECOVERED)
    assert store.attempts.counts(Mode.ACT) == {recovered: 2}
    assert store.attempts.counts(Mode.SHADOW) == {recovered: 1}
    assert store.attempts.restarts() == {"gpu-a": (2, at(21))}


def test_everything_is_there_when_it_is_opened_again(database_url: str) -> None:
    first = Store(database_url)
    first.incidents.note([alert()], at(0))
    planned(first, first.incidents.due(FOREVER)[0], Mode.ACT, reading(), at(1))
    first.close()
    second = Store(database_url)
    assert second.attempts.under_way()[0].before == reading()
    second.close()


URLS = {
    "no URL": ("remediator.db", "is not an SQLAlchemy URL"),
    "a kind of database nobody knows": (
        "nodb://me:hunter2@host/x",
        "is of kind nodb; sqlite and postgresql+psycopg are known",
    ),
    "a driver that is not there": (
        "postgresql+psycopg2://me:hunter2@host/x",
        "its driver is not installed: No module named 'psycopg2'",
    ),
    "a port that is none": (
        "postgresql+psycopg://me:hunter2@host:port/x",
        "is not an SQLAlchemy URL",
    ),
    "a password that is not escaped": (
        "postgresql+psycopg://me:hunt@er2@host/x",
        "is not an SQLAlchemy URL",
    ),
    "nobody there": (
        "postgresql+psycopg://me:hunter2@127.0.0.1:1/x",
        "the database does not answer as it should: connection failed",
    ),
    "an option that is none": (
        "postgresql+psycopg://me:hunter2@127.0.0.1:1/x?nonsense=1",
        "the database does not answer as it should: ",
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
        Store(url)
    assert sentence in str(raised.value)
    told = "".join(traceback.format_exception(raised.value))
    assert not re.search("hunter2|er2|hunt@", told.replace(str(Path(__file__)), ""))
    assert "\n" not in str(raised.value)


def test_a_database_that_is_broken_says_so_without_its_values(store: Store) -> None:
    with store.database.write() as connection:
        connection.execute(text("DROP TABLE decisions"))
        connection.execute(text("DROP TABLE starts"))
        connection.execute(text("DROP TABLE attempts"))
        connection.execute(text("DROP TABLE incidents"))
    with pytest.raises(StorageError) as raised:
        store.incidents.note([alert()], at(0))
    told = str(raised.value)
    assert re.search('no such table: incidents|relation "incidents" does not exist', told)
    assert "\n" not in told
    assert alert().fingerprint not in told


def test_only_a_database_that_is_a_file_has_a_folder(
    database_url: str, store: Store, tmp_path: Path
) -> None:
    assert store.folder == (tmp_path if database_url.startswith("sqlite") else None)
