"""Gateways that are gone: killed here, silent elsewhere, or only cut off for a while."""

import json
from pathlib import Path

import pytest

from gateway.bill import Admission
from gateway.ledger.admit import Asked
from gateway.ledger.database import Database
from gateway.ledger.gone import Gone, Orphan
from gateway.ledger.journal import Journal, Slot
from gateway.ledger.writer import Writer
from tests.gateway.ledger.fakes import Clock
from tests.gateway.ledger.making import (
    T0,
    Charged,
    charged,
    closed,
    killed,
    opened,
    told_legs,
    unequal,
)

TAKEOVER = 15.0


class Host:
    """A gateway with a folder of its own, whose thread is run by hand."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.journal = Journal(folder)
        self.writer = Writer(database, self.journal, 0.0, wall=self.clock)
        self.kept: list[Orphan] = []
        self.gone = Gone(
            database,
            folder,
            self.journal.holder,
            TAKEOVER,
            lambda _, orphans: self.kept.extend(orphans),
            wall=self.clock,
            monotonic=self.clock,
        )

    def let_in(self, name: str = "r1", *, resume: bool = False) -> Slot:
        run = self.journal.run()
        future = self.writer.ask(Asked(opened(name), run[0], resume))
        self.writer.write()
        assert future.result(0).admission == Admission.NEW
        return self.journal.open(opened(name), run)

    def look(self) -> int:
        return self.gone.recover() + self.gone.take_over()


@pytest.fixture
def a(database: Database, tmp_path: Path) -> Host:
    return Host(database, tmp_path / "a")


@pytest.fixture
def b(database: Database, tmp_path: Path) -> Host:
    return Host(database, tmp_path / "b")


def playing(host: Host) -> Slot:
    slot = host.let_in()
    host.journal.leg(slot, "gpu-a", T0)
    host.journal.prompt(slot, 7)
    host.journal.add(slot, [1, 2, 3])
    host.writer.write()
    host.journal.add(slot, [4, 5])
    return slot


def test_what_a_killed_one_delivered_is_booked_at_the_next_start(
    a: Host, database: Database
) -> None:
    playing(a)
    killed(a.journal)
    again = Host(database, a.folder)
    assert again.gone.recover() == 1
    assert charged(database) == {"r1": Charged("partial", 7, 5, None)}
    assert told_legs(database) == [("gpu-a", 7, 5, "lost")]
    assert again.gone.recover() == 0
    assert unequal(database) == []


def test_what_a_killed_one_had_not_worked_on_is_free(a: Host, database: Database) -> None:
    slot = a.let_in()
    a.journal.leg(slot, "gpu-a", T0)
    killed(a.journal)
    assert Host(database, a.folder).look() == 1
    assert charged(database) == {"r1": Charged("failed", None, 0, None)}


def test_a_silent_one_is_ended_as_far_as_it_had_written(
    a: Host, b: Host, database: Database
) -> None:
    slot = playing(a)
    assert b.look() == 0
    b.clock.now += TAKEOVER - 1
    assert b.look() == 0
    b.clock.now += 1
    assert b.look() == 1
    assert charged(database) == {"r1": Charged("partial", 7, 3, None)}
    # It was only cut off: what it delivered meanwhile is billed, too, and nothing twice.
    a.journal.add(slot, [6])
    a.journal.close(slot, closed())
    assert a.writer.write()
    assert charged(database) == {"r1": Charged("complete", 7, 6, None)}
    assert unequal(database) == []


def test_one_that_beats_is_not_gone(a: Host, b: Host, database: Database) -> None:
    slot = playing(a)
    for number in range(10):
        a.journal.add(slot, [number])
        a.writer.write()
        assert b.look() == 0
        b.clock.now += TAKEOVER - 1
    assert charged(database)["r1"].state == "open"


def test_the_journal_of_a_host_that_comes_back_adds_the_rest_once(
    a: Host, b: Host, database: Database
) -> None:
    playing(a)
    killed(a.journal)
    b.look()
    b.clock.now += TAKEOVER
    assert b.look() == 1
    second = b.let_in(resume=True)
    b.journal.add(second, [9])
    assert Host(database, a.folder).gone.recover() == 1
    assert charged(database) == {"r1": Charged("partial", 7, 5, b.journal.holder)}
    b.journal.close(second, closed(prompt=12))
    assert b.writer.write()
    assert charged(database) == {"r1": Charged("complete", 7, 6, None)}
    assert unequal(database) == []


def test_one_of_which_nothing_is_known_was_free(a: Host, b: Host, database: Database) -> None:
    a.let_in()
    b.look()
    b.clock.now += TAKEOVER
    assert b.look() == 1
    assert charged(database) == {"r1": Charged("failed", None, 0, None)}


def test_one_that_is_taken_over_is_seen_again_though_it_wrote_nothing_since(
    a: Host, b: Host, database: Database
) -> None:
    b.look()
    b.clock.now += TAKEOVER
    b.look()
    a.let_in()
    with database.write() as connection:
        connection.exec_driver_sql("DELETE FROM gateways")
    b.look()
    b.clock.now += TAKEOVER
    assert b.look() == 1
    assert charged(database)["r1"].holder is None


SNAPSHOT = {"marks": [1], "delivered": [5], "details": [], "spoke": True}


def test_killed_at_any_point_of_the_recovery_it_comes_to_the_same(
    a: Host, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = playing(a)
    a.journal.snapshot(slot, json.dumps(SNAPSHOT).encode())
    a.journal.add(slot, [6], [0])
    killed(a.journal)
    monkeypatch.setattr("gateway.ledger.dead.Dead.remove", lambda _: None)
    host = Host(database, a.folder)
    assert host.gone.recover() == 1
    assert host.gone.recover() == 1
    monkeypatch.undo()
    assert host.gone.recover() == 1
    assert charged(database) == {"r1": Charged("partial", 7, 6, None)}
    # Kept once: by the second time somebody may have gone on with it.
    (orphan,) = host.kept
    assert (orphan.caller, orphan.request_id) == ("acme", "r1")
    assert json.loads(orphan.snapshot) == SNAPSHOT | {"marks": [1, 2], "delivered": [5, 6]}


def test_what_another_release_has_written_holds_up_no_bill(a: Host, database: Database) -> None:
    slot = playing(a)
    a.journal.snapshot(slot, b'{"seq": 1}')
    killed(a.journal)
    host = Host(database, a.folder)
    assert host.gone.recover() == 1
    assert charged(database) == {"r1": Charged("partial", 7, 5, None)}
    assert host.kept == []


def test_nothing_is_kept_of_what_nobody_can_go_on_with(a: Host, database: Database) -> None:
    slot = playing(a)
    a.journal.snapshot(slot, json.dumps(SNAPSHOT).encode())
    a.journal.snapshot(slot, b"")
    killed(a.journal)
    host = Host(database, a.folder)
    assert host.gone.recover() == 1
    assert host.kept == []


def test_a_database_that_lost_everything_is_given_what_the_journal_has(
    a: Host, database: Database
) -> None:
    playing(a)
    killed(a.journal)
    with database.write() as connection:
        for table in ("legs", "runs", "requests", "gateways"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    assert Host(database, a.folder).gone.recover() == 1
    assert charged(database) == {"r1": Charged("partial", 7, 5, None)}
