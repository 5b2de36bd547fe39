"""The thread that brings the book up to the journal, group by group."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from demo.postgresql import PostgreSQL
from gateway.bill import Admission, End, LegEnd
from gateway.ledger.admit import Answer, Asked
from gateway.ledger.billed import in_progress
from gateway.ledger.database import Database, StorageError
from gateway.ledger.journal import Journal, Slot
from gateway.ledger.writer import Writer
from tests.gateway.ledger.fakes import BrokenDatabase, Clock
from tests.gateway.ledger.making import T0, Charged, charged, closed, opened, told_legs, unequal

BEAT = 1000.0


@pytest.fixture
def database(database_url: str) -> Iterator[BrokenDatabase]:
    broken = BrokenDatabase(database_url)
    yield broken
    broken.close()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def writer(database: BrokenDatabase, journal: Journal) -> Writer:
    return Writer(database, journal, BEAT, wall=Clock())


def let_in(writer: Writer, journal: Journal, name: str = "r1") -> Slot:
    run = journal.run()
    future = writer.ask(Asked(opened(name), run[0]))
    assert writer.write()
    assert future.result(0).admission == Admission.NEW
    return journal.open(opened(name), run)


def test_what_is_in_hand_is_in_the_database_after_a_group(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    slot = let_in(writer, journal)
    journal.leg(slot, "gpu-a", T0)
    journal.prompt(slot, 7)
    journal.add(slot, [1, 2])
    assert writer.write()
    with database.read() as connection:
        (progress,) = in_progress(connection).values()
    assert (progress.prompt_tokens, progress.tokens, progress.backend) == (7, 2, "gpu-a")
    assert writer.lag_seconds == 0.0


def test_what_ended_is_booked_and_then_wiped(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    slot = let_in(writer, journal)
    journal.prompt(slot, 7)
    journal.add(slot, [1, 2])
    journal.leg_end(slot, LegEnd("gpu-a", 7, 2, "reset", T0))
    assert writer.write()
    assert told_legs(database) == [("gpu-a", 7, 2, "reset")]
    journal.add(slot, [3])
    journal.leg_end(slot, LegEnd("gpu-b", 9, 1, "finished", T0))
    journal.close(slot, closed(completion=3))
    assert writer.lag_seconds > 0
    assert not journal.is_empty
    assert writer.write()
    assert charged(database) == {"r1": Charged("complete", 7, 3, None)}
    assert told_legs(database) == [("gpu-a", 7, 2, "reset"), ("gpu-b", 9, 1, "finished")]
    assert journal.is_empty
    assert writer.is_done
    assert unequal(database) == []


def test_nothing_is_lost_while_the_database_is_broken(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    slot = let_in(writer, journal)
    journal.add(slot, [1, 2])
    journal.leg_end(slot, LegEnd("gpu-a", 7, 2, "finished", T0))
    journal.close(slot, closed())
    database.broken = True
    future = writer.ask(Asked(opened("r2"), journal.run()[0]))
    for _ in range(3):
        assert not writer.write()
    with pytest.raises(StorageError, match="it is broken"):
        future.result(0)
    assert not journal.is_empty
    assert not writer.is_done
    assert writer.lag_seconds > 0
    assert charged(database)["r1"].completion == 0
    database.broken = False
    assert writer.write()
    assert charged(database) == {"r1": Charged("complete", 7, 2, None)}
    assert told_legs(database) == [("gpu-a", 7, 2, "finished")]
    assert journal.is_empty


def test_one_that_was_written_down_though_it_was_told_otherwise_is_ended(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    database.lost = True
    future = writer.ask(Asked(opened(), journal.run()[0]))
    assert not writer.write()
    assert isinstance(future.exception(0), StorageError)
    assert charged(database)["r1"].state == "open"
    database.lost = False
    assert writer.write()
    assert charged(database) == {"r1": Charged("failed", None, 0, None)}


def test_what_was_booked_though_it_was_told_otherwise_counts_once(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    slot = let_in(writer, journal)
    journal.add(slot, [1, 2])
    journal.leg_end(slot, LegEnd("gpu-a", 7, 2, "finished", T0))
    journal.close(slot, closed())
    database.lost = True
    assert not writer.write()
    assert not writer.write()
    database.lost = False
    assert writer.write()
    assert charged(database) == {"r1": Charged("complete", 7, 2, None)}
    assert told_legs(database) == [("gpu-a", 7, 2, "finished")]
    assert unequal(database) == []


def test_one_that_is_not_waited_for_any_more_is_not_let_in(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    future = writer.ask(Asked(opened(), journal.run()[0]))
    future.cancel()
    assert writer.write()
    assert charged(database) == {}


def test_the_book_catches_up_by_itself(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    writer.start()
    slots = []
    for number in range(20):
        run = journal.run()
        future = writer.ask(Asked(opened(f"r{number}"), run[0]))
        assert future.result(30).admission == Admission.NEW
        slots.append(journal.open(opened(f"r{number}"), run))
    for slot in slots:
        journal.add(slot, [1, 2, 3])
        journal.close(slot, closed(End.PARTIAL))
    last = writer.ask(Asked(opened("last"), journal.run()[0]))
    assert last.result(30).admission == Admission.NEW
    writer.stop()
    writer.write()
    records = charged(database)
    assert {records[f"r{n}"] for n in range(20)} == {Charged("partial", 7, 3, None)}
    assert journal.is_empty


def test_the_longer_count_of_both_is_billed(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    for number, told in enumerate((0, 5)):
        slot = let_in(writer, journal, f"r{number}")
        journal.add(slot, [1, 2])
        journal.close(slot, closed(completion=told))
    assert writer.write()
    assert {name: one.completion for name, one in charged(database).items()} == {"r0": 2, "r1": 5}


def ask(writer: Writer, journal: Journal, *names: str) -> "list[Future[Answer]]":
    return [writer.ask(Asked(opened(name), journal.run()[0])) for name in names]


def told(futures: "list[Future[Answer]]") -> list[Admission]:
    return [future.result(0).admission for future in futures]


def test_a_few_new_ones_are_let_in_the_short_way_and_many_as_a_group(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    groups = database.groups
    futures = ask(writer, journal, "r1", "r2", "r3")
    assert writer.write(everything=False)
    assert database.groups == groups
    futures += ask(writer, journal, *(f"r{number}" for number in range(4, 20)))
    assert writer.write(everything=False)
    assert database.groups == groups + 1
    assert told(futures) == [Admission.NEW] * len(futures)
    holder = journal.holder
    expected = {f"r{number}": Charged("open", None, 0, holder) for number in range(1, 20)}
    assert charged(database) == expected


def test_one_that_is_known_goes_the_long_way_beside_new_ones(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    let_in(writer, journal)
    groups = database.groups
    futures = ask(writer, journal, "r2", "r1", "r3")
    assert writer.write(everything=False)
    assert told(futures) == [Admission.NEW, Admission.BUSY, Admission.NEW]
    assert database.groups == groups + 1
    assert charged(database).keys() == {"r1", "r2", "r3"}


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("number", [1, 20])
def test_how_far_the_book_is_behind_is_told_while_new_ones_are_turned_away(
    database: BrokenDatabase, journal: Journal, writer: Writer, number: int, *, everything: bool
) -> None:
    slot = let_in(writer, journal)
    journal.add(slot, [1])
    assert writer.write()
    assert writer.lag_seconds == 0.0
    journal.add(slot, [2])
    database.broken = True
    futures = ask(writer, journal, *(f"new-{n}" for n in range(number)))
    assert not writer.write(everything=everything)
    assert all(isinstance(future.exception(0), StorageError) for future in futures)
    writer._undone.clear()
    assert writer.lag_seconds > 0.0


def test_one_whose_row_was_written_though_it_was_told_otherwise_is_let_in(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    database.lost_once = True
    (future,) = ask(writer, journal, "r1")
    assert writer.write(everything=False)
    assert told([future]) == [Admission.NEW]
    assert charged(database) == {"r1": Charged("open", None, 0, journal.holder)}


def test_nobody_waits_for_two_failures(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    database.broken = True
    (first,) = ask(writer, journal, "r1")
    groups, attempts = database.groups, database.attempts
    assert not writer.write()
    assert isinstance(first.exception(0), StorageError)
    assert (database.groups, database.attempts) == (groups, attempts + 1)
    (second,) = ask(writer, journal, "r2")
    assert not writer.write()
    assert isinstance(second.exception(0), StorageError)
    assert (database.groups, database.attempts) == (groups + 1, attempts + 2)
    database.broken = False
    (third,) = ask(writer, journal, "r3")
    assert writer.write()
    assert told([third]) == [Admission.NEW]
    groups = database.groups
    (fourth,) = ask(writer, journal, "r4")
    assert writer.write(everything=False)
    assert told([fourth]) == [Admission.NEW]
    assert database.groups == groups


def test_who_comes_first_after_a_server_was_started_again_is_let_in(tmp_path: Path) -> None:
    with PostgreSQL() as server:
        database = Database(server.database())
        journal = Journal(tmp_path / "journal")
        writer = Writer(database, journal, BEAT, wall=Clock())
        let_in(writer, journal)
        server.stop()
        server.start()
        (future,) = ask(writer, journal, "r2")
        assert writer.write()
        assert told([future]) == [Admission.NEW]
        database.close()


def test_who_waits_behind_one_that_is_turned_away_is_turned_away_too(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    let_in(writer, journal)
    database.broken, database.spared = True, 1
    known, new = ask(writer, journal, "r1", "r2")
    assert not writer.write(everything=False)
    for future in (known, new):
        with pytest.raises(StorageError, match="it is broken"):
            future.result(0)
    database.broken = False
    assert writer.write()
    assert charged(database)["r1"].state == "open"


def test_progress_goes_the_short_way_only_while_it_is_all_there_is(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    slot = let_in(writer, journal)
    journal.add(slot, [1])
    assert writer.write()
    groups = database.groups
    journal.add(slot, [2])
    assert writer.write()
    assert database.groups == groups
    journal.add(slot, [3])
    journal.leg_end(slot, LegEnd("gpu-a", 7, 3, "reset", T0))
    assert writer.write()
    assert database.groups == groups + 1
    with database.read() as connection:
        (progress,) = in_progress(connection).values()
    assert progress.tokens == 3
    assert told_legs(database) == [("gpu-a", 7, 3, "reset")]
    writer.abandon(Asked(opened("r2"), journal.run()[0]))
    assert writer.write()
    assert database.groups == groups + 2
    assert writer.is_done


@pytest.mark.parametrize("trouble", ["broken", "lost"])
def test_progress_that_was_not_written_is_written_by_the_next_turn(
    database: BrokenDatabase, journal: Journal, writer: Writer, trouble: str
) -> None:
    slot = let_in(writer, journal)
    journal.add(slot, [1])
    assert writer.write()
    journal.add(slot, [2, 3])
    setattr(database, trouble, True)
    assert not writer.write()
    assert writer.lag_seconds > 0
    setattr(database, trouble, False)
    assert writer.write()
    assert writer.lag_seconds == 0.0
    with database.read() as connection:
        (progress,) = in_progress(connection).values()
    assert progress.tokens == 3


def test_progress_tells_each_stream_by_its_own_backend(
    database: BrokenDatabase, journal: Journal, writer: Writer
) -> None:
    slots = [let_in(writer, journal, name) for name in ("r1", "r2", "r3", "r4")]
    for slot, backend in zip(slots, ("gpu-a", "gpu-b", "gpu-a"), strict=False):
        journal.leg(slot, backend, T0)
        journal.prompt(slot, 7)
        journal.add(slot, [1])
    # One that goes on with five that are on the bill has delivered nothing new yet.
    journal.again(slots[1], 5)
    assert writer.write()
    with database.read() as connection:
        progress = in_progress(connection)
    assert {one.run for one in slots[:3]} == progress.keys()
    told = [progress[slot.run] for slot in slots[:3]]
    assert [(one.backend, one.leg, one.prompt_tokens) for one in told] == [
        ("gpu-a", 1, 7),
        ("gpu-b", 1, 7),
        ("gpu-a", 1, 7),
    ]
    assert [(one.tokens, one.leg_tokens) for one in told] == [(1, 1), (0, 0), (1, 1)]
