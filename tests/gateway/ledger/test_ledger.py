"""The ledger as the gateway has it in hand."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.bill import Admission, Bill
from gateway.ledger.ledger import Ledger
from gateway.ledger.writer import EVERY
from tests.gateway.ledger.making import T0, Charged, charged, closed, killed, opened

WAIT = 30.0


def ledger(url: str, folder: Path) -> Ledger:
    return Ledger(url, folder, takeover_after=60.0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), WAIT))


def test_from_admission_to_an_empty_journal(database_url: str, tmp_path: Path) -> None:
    ours = ledger(database_url, tmp_path / "journal")
    bill: Bill = ours
    assert ours.start() == 0

    async def work() -> None:
        assert await bill.admit(opened()) == Admission.NEW
        assert await bill.admit(opened()) == Admission.BUSY
        bill.keep("r1", b"snapshot")
        ours.begins("r1", "gpu-a", T0)
        ours.prompt("r1", 7)
        bill.add("r1", [1, 2])
        ours.count("r1", 3)
        bill.close("r1", closed(completion=5))
        assert await asyncio.to_thread(ours.drain, WAIT)
        answer = await ours.enter(opened())
        assert answer.record
        assert (answer.admission, answer.record.completion_tokens) == (Admission.AGAIN, 5)

    run(work)
    assert ours.lag_seconds == 0.0
    ours.shut()
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_drain_that_is_too_short_says_so_and_the_next_start_books_the_rest(
    database_url: str, tmp_path: Path
) -> None:
    ours = ledger(database_url, tmp_path)
    ours.start()

    async def work() -> None:
        await ours.admit(opened())
        ours.prompt("r1", 7)
        ours.add("r1", [1, 2])

    run(work)
    assert not ours.drain(0.0)
    ours.shut()
    killed(ours._journal)
    again = ledger(database_url, tmp_path)
    assert again.start() == 1
    assert charged(again._database) == {"r1": Charged("partial", 7, 2, None)}
    again.shut()


def test_a_stream_of_a_killed_gateway_is_gone_on_with_by_another(
    database_url: str, tmp_path: Path
) -> None:
    first, second = ledger(database_url, tmp_path), ledger(database_url, tmp_path)
    first.start()
    second.start()

    async def work() -> None:
        await first.admit(opened())
        first.prompt("r1", 7)
        first.add("r1", [1, 2], [0])
        first.line("r1")(3)
        assert await second.look() == 0
        assert await second.reopen(opened()) == Admission.BUSY
        first._writer.stop()
        killed(first._journal)
        assert await second.look() == 1
        assert await second.reopen(opened()) == Admission.NEW
        assert await second.reopen(opened()) == Admission.BUSY
        # The client had got the first one only: two are generated again, and one more.
        second.again("r1", 2)
        for token in (2, 3, 4):
            second.line("r1")(token)
        second.close("r1", closed(prompt=10, completion=1))
        assert await asyncio.to_thread(second.drain, WAIT)

    run(work)
    assert charged(second._database) == {"r1": Charged("complete", 7, 4, None)}
    second.shut()


def test_a_client_that_is_gone_before_it_is_let_in_leaves_nothing_open(
    database_url: str, tmp_path: Path
) -> None:
    ours = ledger(database_url, tmp_path)
    ours.start()

    async def work() -> None:
        for number in range(30):
            task = asyncio.create_task(ours.admit(opened(f"r{number}")))
            await asyncio.sleep(EVERY * number / 30)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled():
                ours.close(f"r{number}", closed())
        assert await asyncio.to_thread(ours.drain, WAIT)

    run(work)
    assert [one for one in charged(ours._database).values() if one.holder] == []
    ours.shut()


def test_a_request_that_is_not_there_is_no_request(database_url: str, tmp_path: Path) -> None:
    ours = ledger(database_url, tmp_path)
    with pytest.raises(KeyError):
        ours.add("r1", [1])
    ours.shut()
