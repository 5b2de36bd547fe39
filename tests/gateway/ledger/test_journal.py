"""The journal: what was added is read after its process is gone, to the last entry."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bill import End, LegEnd
from gateway.ledger import entries
from gateway.ledger.dead import dead
from gateway.ledger.entries import BLOCK, Found, Kind, found, head, opened_payload, padded
from gateway.ledger.journal import Journal
from gateway.ledger.segment import JournalError
from gateway.snapshot import Later
from tests.gateway.ledger.making import T0, closed, killed, opened

SMALL = 16 * BLOCK
SERIAL = 77


def told(folder: Path) -> list[Found]:
    return [run for one in dead(folder) for run in one.runs()]


def test_what_was_added_is_there_after_the_process_is_gone(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    slot = journal.open(opened(), journal.run())
    journal.snapshot(slot, b"first")
    journal.leg(slot, "gpu-a", T0)
    journal.prompt(slot, 7)
    journal.add(slot, [1, 2, 3], [0])
    journal.leg_end(slot, LegEnd("gpu-a", 7, 3, "reset", T0 + 1))
    journal.snapshot(slot, b"second, longer")
    journal.leg(slot, "gpu-b", T0 + 1)
    journal.prompt(slot, 7, 10)
    journal.add(slot, [4, 5], [2, -1, 0])
    journal.details(slot, [(4, "tail", "il", 9, None)])
    slot.one(6)
    journal.count(slot, 5)
    killed(journal)
    (run,) = told(tmp_path)
    assert (run.opened, run.run) == (opened(), slot.run)
    assert (run.prompt_tokens, run.completion_tokens) == (7, 11)
    assert run.snapshot == b"second, longer"
    details: list[tuple[int, str, str, int, str | None]] = [(4, "tail", "il", 9, None)]
    assert run.later == Later([4, 5, 6], [0, None, 2, 3], details)
    legs = run.booking(T0 + 2).legs
    assert [(leg.backend, leg.prompt_tokens, leg.completion_tokens, leg.how) for leg in legs] == [
        ("gpu-a", 7, 3, "reset"),
        ("gpu-b", 10, 8, "lost"),
    ]


@pytest.mark.parametrize("size", [0, 1, 2, 63, 64, 65, 1000, 5000])
def test_any_number_of_ids_is_added(tmp_path: Path, size: int) -> None:
    journal = Journal(tmp_path)
    slot = journal.open(opened(), journal.run())
    for number in range(50):
        journal.add(slot, range(number, number + size))
    assert slot.tokens == 50 * size
    killed(journal)
    (run,) = told(tmp_path)
    assert list(run.later.ids) == [
        one for number in range(50) for one in range(number, number + size)
    ]


def test_what_is_longer_than_a_block_comes_back_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    slot = journal.open(opened(), journal.run())
    data = os.urandom(5 * BLOCK + 3)
    journal.snapshot(slot, data)
    killed(journal)
    (run,) = told(tmp_path)
    assert run.snapshot == data


def test_runs_do_not_mix(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=SMALL)
    slots = [journal.open(opened(f"r{n}"), journal.run()) for n in range(5)]
    for number in range(9000):
        journal.add(slots[number % 5], [number])
    killed(journal)
    assert len(list(tmp_path.glob("*.journal"))) > 1
    runs = told(tmp_path)
    assert {run.opened.request_id: list(run.later.ids) for run in runs} == {
        f"r{n}": list(range(n, 9000, 5)) for n in range(5)
    }


def test_what_is_booked_is_wiped_and_its_room_used_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=SMALL)
    for number in range(100):
        slot = journal.open(opened(f"r{number}"), journal.run())
        journal.snapshot(slot, b"the prompt is a secret " * 300)
        journal.close(slot, closed())
        journal.release(slot)
    assert journal.is_empty
    assert journal.size == SMALL
    (file,) = tmp_path.glob("*.journal")
    assert not any(file.read_bytes()[BLOCK:])
    journal.remove()
    assert list(tmp_path.iterdir()) == []


def test_only_this_user_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    Journal(folder)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_journal_that_is_full_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=2 * BLOCK, most_segments=1)
    slot = journal.open(opened(), journal.run())
    with pytest.raises(JournalError, match=r"8192 bytes of journal are in use$"):
        journal.snapshot(slot, bytes(3 * BLOCK))
    with pytest.raises(JournalError, match=r"8192 bytes of journal are in use$"):
        journal.add(slot, range(2000))
    with pytest.raises(JournalError):
        journal.open(opened("r2"), journal.run())
    # Of what found no room nothing is left, and what needs less finds some.
    journal.add(slot, range(100))
    killed(journal)
    (run,) = told(tmp_path)
    assert (run.completion_tokens, run.snapshot) == (100, None)
    assert run.later.ids == list(range(100))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match=r"file/journal: cannot be made: Not a directory$"):
        Journal(tmp_path / "file" / "journal")


def test_the_journal_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open(opened(), journal.run())
    assert list(dead(tmp_path)) == []
    killed(journal)
    assert len(list(dead(tmp_path))) == 1


def test_what_is_marked_as_booked_is_not_booked_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=2 * BLOCK)
    for number in range(3):
        journal.open(opened(f"r{number}"), journal.run())
    killed(journal)
    files = sorted(tmp_path.glob("*.journal"))
    kept = [file.read_bytes() for file in files[1:]]
    for one in dead(tmp_path):
        assert len(one.runs()) == 3
        one.remove()
    # As if it had been killed after it had deleted the first file.
    for file, data in zip(files[1:], kept, strict=True):
        booked = bytearray(data)
        booked[12:16] = b"\x01\0\0\0"
        file.write_bytes(booked)
    for one in dead(tmp_path):
        assert one.runs() == []
        one.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_not_finished_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".new-0123-0001.journal").write_bytes(b"")
    assert list(dead(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, b"\xff" * 3 * BLOCK, bytes(3 * BLOCK)])
def test_a_file_of_something_else_holds_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "0123-0001.journal").write_bytes(data)
    assert told(tmp_path) == []


def block() -> bytes:
    """A run in one block: its beginning, and ids 1 to 20, one entry each."""
    data = bytes(entries.BLOCK_HEAD.size)
    for kind, payload in [
        (Kind.OPENED, opened_payload(opened(), "run")),
        *((Kind.IDS, number.to_bytes(4, "little")) for number in range(1, 21)),
        (Kind.SNAPSHOT, padded(b"x" * 9)),
    ]:
        data += entries.HEAD.pack(head(kind, payload, SERIAL)) + payload
    return data.ljust(BLOCK, b"\0")


@given(st.integers(0, BLOCK - 1), st.binary(min_size=1, max_size=300))
def test_whatever_is_torn_what_is_read_is_a_beginning(at: int, junk: bytes) -> None:
    whole = block()
    torn = (whole[:at] + junk)[:BLOCK].ljust(BLOCK, b"\0")
    run = found([torn], SERIAL)
    if run is not None:
        ids = list(run.later.ids)
        harmless = [one for one in ids if one <= 20]
        assert harmless == list(range(1, len(harmless) + 1))


def test_the_first_word_is_what_makes_an_entry_count() -> None:
    whole = block()
    for at in range(0, len(whole), 4):
        run = found([whole[:at] + bytes(4) + whole[at + 4 :]], SERIAL)
        if run is not None:
            assert list(run.later.ids) == list(range(1, len(run.later.ids) + 1))


def test_another_runs_entries_do_not_pass_for_this_ones() -> None:
    assert found([block()], SERIAL + 1) is None


def test_a_count_that_no_server_has_does_not_hold_up_the_bill(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    slot = journal.open(opened(), journal.run())
    journal.prompt(slot, 2**70, -1)
    journal.leg_end(slot, LegEnd("gpu-a", -5, 2**70, "x", T0))
    journal.close(slot, closed(End.PARTIAL, prompt=2**70, completion=-1))
    booking = slot.booking()
    assert (booking.prompt_tokens, booking.completion_tokens) == (2**31 - 1, 0)
    assert booking.legs[0].prompt_tokens == 0
