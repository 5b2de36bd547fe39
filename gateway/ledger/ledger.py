"""I/O: the ledger of one gateway: its journal, the book behind it, and what others left behind.

It is a ``gateway.bill.Bill``. Everything but ``drain`` and ``shut`` belongs to the loop's thread.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from gateway.bill import Admission, Closed, End, LegEnd, Opened
from gateway.ledger import admit, book
from gateway.ledger.admit import Answer, Asked
from gateway.ledger.database import Database, StorageError
from gateway.ledger.gone import Gone, Keep, forget
from gateway.ledger.journal import SEGMENT_BYTES, Journal, Slot
from gateway.ledger.segment import JournalError
from gateway.ledger.upkeep import Upkeep
from gateway.ledger.writer import Writer

LOOKS_PER_TAKEOVER = 5
LOOK = 0.005

log = logging.getLogger("gateway")


class Ledger:
    """Opened by ``start``, ended by ``drain`` and ``shut``.

    Raises StorageError where the database does not do what it should, JournalError where the
    journal has no room.
    """

    def __init__(
        self,
        database: str,
        folder: Path,
        *,
        takeover_after: float,
        keep: Keep = forget,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """``keep``: what becomes of the streams of gateways that were killed."""
        self._database = Database(database)
        self._folder = folder
        self._look_every = takeover_after / LOOKS_PER_TAKEOVER
        self._journal = Journal(folder, segment_bytes=segment_bytes)
        self._writer = Writer(self._database, self._journal, self._look_every)
        self._upkeep = Upkeep(self._database)
        self._gone = Gone(self._database, folder, self._journal.holder, takeover_after, keep)
        self._slots: dict[str, Slot] = {}
        self._stopping = threading.Event()
        self._looks = threading.Thread(target=self._look, name="ledger-looks", daemon=True)

    def start(self) -> int:
        """Book what killed gateways left, then begin; returns how many requests that ended."""
        try:
            ended = self._gone.recover()
        except OSError as error:
            place = error.filename or self._folder
            raise JournalError(f"{place}: cannot be recovered: {error.strerror}") from None
        self._writer.start()
        self._upkeep.start()
        self._looks.start()
        return ended

    async def admit(self, opened: Opened) -> Admission:
        """Write a request down before anybody works on it."""
        return (await self.enter(opened)).admission

    async def enter(self, opened: Opened) -> Answer:
        """The same, with the record that is there already."""
        return await self._enter(opened, resume=False)

    async def reopen(self, opened: Opened) -> Admission:
        """Go on with one that was interrupted, by what was kept of it."""
        return (await self._enter(opened, resume=True)).admission

    async def look(self) -> int:
        """Book what gateways of this host left that were killed; returns how many requests."""
        return await asyncio.to_thread(self._gone.recover)

    async def would_admit(self, opened: Opened) -> Admission:
        """What ``admit`` would say now; nothing is written down."""
        return await asyncio.to_thread(self._would_admit, opened)

    def _would_admit(self, opened: Opened) -> Admission:
        with self._database.read() as connection:
            return admit.would_admit(connection, opened)

    async def stage(self, caller: str, request_id: str) -> End | Admission:
        """How a request has ended; BUSY while it is in hand, NEW where it is not known."""
        return await asyncio.to_thread(self._stage, caller, request_id)

    def _stage(self, caller: str, request_id: str) -> End | Admission:
        with self._database.read() as connection:
            return admit.stage(connection, caller, request_id)

    def prompt(self, request_id: str, tokens: int, read: int | None = None) -> None:
        """The prompt's length, charged once; ``read``: what this leg has read, if that is more."""
        self._journal.prompt(self._slots[request_id], tokens, read)

    def line(self, request_id: str) -> Callable[[int], None]:
        """What to call when one event of one output token is about to be sent to the client."""
        return self._slots[request_id].one

    def add(self, request_id: str, ids: Sequence[int], behind: Sequence[int] = ()) -> None:
        """These output tokens are about to be sent to the client, in so many events."""
        self._journal.add(self._slots[request_id], ids, behind)

    def details(self, request_id: str, details: Sequence[Sequence[object]]) -> None:
        """The details of events that are about to be sent."""
        self._journal.details(self._slots[request_id], details)

    def again(self, request_id: str, tokens: int) -> None:
        """So many of the tokens that follow are on the bill already."""
        self._journal.again(self._slots[request_id], tokens)

    def count(self, request_id: str, tokens: int) -> None:
        """So many output tokens, whose ids are not known, are about to be sent."""
        self._journal.count(self._slots[request_id], tokens)

    def keep(self, request_id: str, snapshot: bytes) -> None:
        """What another gateway needs to go on with it and what is added later; empty: none can."""
        self._journal.snapshot(self._slots[request_id], snapshot)

    def begins(self, request_id: str, backend: str, at: float) -> None:
        """A leg begins; ``at`` is in Unix seconds."""
        self._journal.leg(self._slots[request_id], backend, at)

    def leg(self, request_id: str, leg: LegEnd) -> None:
        """A leg has ended."""
        self._journal.leg_end(self._slots[request_id], leg)

    def close(self, request_id: str, closed: Closed) -> None:
        """It has ended; the book has it within 50 ms."""
        self._journal.close(self._slots.pop(request_id), closed)

    @property
    def lag_seconds(self) -> float:
        """For how long at most the journal has had something that the book has not."""
        return self._writer.lag_seconds

    @property
    def journal_bytes(self) -> int:
        """The size of this process's journal."""
        return self._journal.size

    def drain(self, timeout: float) -> bool:
        """Wait until the book has everything and the journal is empty; tells whether it is so."""
        deadline = time.monotonic() + timeout
        while not (self._writer.is_done and self._journal.is_empty):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK)
        return True

    def shut(self) -> None:
        """End. What is in hand stays in the journal, for the next start to book."""
        self._stopping.set()
        self._writer.stop()
        if self._looks.is_alive():
            self._looks.join()
        if self._writer.is_done and self._journal.is_empty:
            try:
                with self._database.write() as connection:
                    book.leave(connection, self._journal.holder)
                self._database.sync()
            except StorageError as error:
                log.warning("event=ledger_not_left why=%r", str(error))
            else:
                self._journal.remove()
        self._upkeep.stop()
        self._database.close()

    async def _enter(self, opened: Opened, *, resume: bool) -> Answer:
        if opened.request_id in self._slots:
            return Answer(Admission.BUSY)
        run = self._journal.run()
        asked = Asked(opened, run[0], resume)
        future = self._writer.ask(asked)
        try:
            answer = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(lambda done: self._give_up(asked, done))
            raise
        if answer.admission == Admission.NEW:
            try:
                self._slots[opened.request_id] = self._journal.open(opened, run)
            except Exception:
                self._writer.abandon(asked)
                raise
        return answer

    def _give_up(self, asked: Asked, done: "Future[Answer]") -> None:
        admitted = not done.cancelled() and done.exception() is None
        if admitted and done.result().admission == Admission.NEW:
            self._writer.abandon(asked)

    def _look(self) -> None:
        while not self._stopping.wait(self._look_every):
            try:
                self._gone.recover()
                self._gone.take_over()
            except (StorageError, OSError) as error:
                log.warning("event=others_not_looked_after why=%r", str(error))
