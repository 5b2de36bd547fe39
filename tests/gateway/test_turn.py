"""What one turn of the loop reads is handled in its order, and then written."""

import asyncio
import logging

import pytest

from gateway.turn import Turn


class Both:
    """Reads and sends; keeps what happens to it in a list that it shares."""

    def __init__(self, turn: Turn, name: str, happened: list[str], *, breaks: bool = False) -> None:
        self.turn, self.name, self.happened, self.breaks = turn, name, happened, breaks

    def take(self, data: bytes) -> None:
        self.happened.append(f"{self.name} takes {data.decode()}")
        if self.breaks:
            raise RuntimeError("broken")
        write(self.turn, self)

    def abort(self) -> None:
        self.happened.append(f"{self.name} aborts")

    def flush(self) -> None:
        self.happened.append(f"{self.name} writes")
        if self.breaks:
            raise OSError("gone")


def read(turn: Turn, reader: Both, data: bytes) -> None:
    """As a connection to a server does it."""
    if not turn.is_planned:
        turn.plan()
    turn.read.append((reader, data))


def write(turn: Turn, sender: Both) -> None:
    """As a connection of a client does it."""
    if not turn.is_planned:
        turn.plan()
    turn.senders.append(sender)


def one_turn(*, breaks: bool = False) -> list[str]:
    happened: list[str] = []

    async def work() -> None:
        turn = Turn()
        a, b = Both(turn, "a", happened, breaks=breaks), Both(turn, "b", happened)
        read(turn, a, b"1")
        read(turn, b, b"2")
        read(turn, a, b"3")
        assert turn.holds_of(a)
        assert turn.holds_of(b)
        assert happened == []
        await asyncio.sleep(0)
        happened.append("turned")
        assert not turn.holds_of(a)
        assert not turn.holds_of(b)
        write(turn, b)
        await asyncio.sleep(0)

    asyncio.run(work())
    return happened


def test_all_that_was_read_is_handled_before_anything_is_written() -> None:
    taken = ["a takes 1", "b takes 2", "a takes 3"]
    assert one_turn() == [*taken, "a writes", "b writes", "a writes", "turned", "b writes"]


def test_what_cannot_be_handled_ends_its_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        happened = one_turn(breaks=True)
    taken = ["a takes 1", "a aborts", "b takes 2", "a takes 3", "a aborts"]
    assert happened == [*taken, "b writes", "turned", "b writes"]
    assert [record.getMessage() for record in caplog.records] == ["event=read_failed"] * 2


class CannotWrite(Both):
    """Writes nothing: something is wrong with it."""

    def flush(self) -> None:
        raise TypeError("not this way")


def test_what_cannot_be_written_ends_its_connection_alone() -> None:
    happened: list[str] = []

    async def work() -> None:
        turn = Turn()
        write(turn, CannotWrite(turn, "a", happened))
        write(turn, Both(turn, "b", happened))
        await asyncio.sleep(0)

    asyncio.run(work())
    assert happened == ["a aborts", "b writes"]
