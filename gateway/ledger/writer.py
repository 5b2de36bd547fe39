"""I/O: the one thread that brings the book up to the journal, in groups.

A group is a transaction with all that has come since the last one: ends of requests, ends of legs,
and how far every run in hand is. There is one at least every ``EVERY`` seconds while the journal
has something that the book has not. When it is committed, what it closed is wiped from the journal.

New requests are let in as soon as they come: a few each by itself, many together as a group.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from gateway.ledger import book
from gateway.ledger.admit import Answer, Asked, admit
from gateway.ledger.beat import Beat
from gateway.ledger.database import Database
from gateway.ledger.door import Door
from gateway.ledger.journal import Journal, Slot
from gateway.ledger.progress import packed
from gateway.ledger.record import Booking, Leg, State, failed
from gateway.ledger.segment import JournalError

# With the commit itself, nothing is behind for more than 50 ms.
EVERY = 0.04
RETRY = 0.2
LONGEST_GROUP = 500
# So many who come at once are faster as a group: on PostgreSQL each transaction is a sync.
MANY = 4

log = logging.getLogger("gateway")

Waiting = tuple[Asked, "Future[Answer]"]


class Writer:
    """Writes while it is started. ``ask`` may be called from any thread."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        beat_every: float,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._journal = journal
        self._beat = Beat(database, journal.holder)
        self._door = Door(database, journal.holder)
        self._beat_every = beat_every
        self._wall = wall
        self._asked: deque[Waiting] = deque()
        self._undone: deque[Booking] = deque()
        self._ended_legs: deque[tuple[Slot, Leg]] = deque()
        self._closed: list[Slot] = []
        self._backends: dict[str, int] = {}
        self._written = b""
        self._beat_at = self._progress_at = float("-inf")
        self._up_to = time.monotonic()
        self._behind = False
        self._well = True  # where the last attempt failed, the next one is a group
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask(self, asked: Asked) -> "Future[Answer]":
        """Let a request in; the answer comes when it is written down. It may be StorageError."""
        future: Future[Answer] = Future()
        self._asked.append((asked, future))
        self._wake.set()
        return future

    def stop(self) -> None:
        """End after the group that is being written."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_done(self) -> bool:
        """Whether nothing waits for it."""
        return not (self._has_more() or self._closed or self._ended_legs)

    @property
    def lag_seconds(self) -> float:
        """For how long at most the journal has had something that the book has not."""
        return time.monotonic() - self._up_to if self._behind or self._has_more() else 0.0

    def write(self, *, everything: bool = True) -> bool:
        """Let in who waits, and one group, if there is anything for one and it is ``everything``.

        Returns whether all is well.
        """
        waiting = self._next_waiting()
        was_behind = self._behind
        self._behind = was_behind or bool(waiting)  # while the database keeps us waiting
        if self._well and 0 < len(waiting) < MANY:
            waiting = self._let_in(waiting)
            if not self._well:
                return False
        if waiting or everything:
            self._well = self._write(waiting, everything=everything)
        if self._well and not everything:
            self._behind = was_behind
        return self._well

    def _write(self, waiting: Sequence[Waiting], *, everything: bool) -> bool:
        began = time.monotonic()
        progress = self._written
        if everything:
            self._progress_at = began
            # First those in hand: what ends meanwhile is in the progress, or in this group.
            progress = self._progress()
            self._gather()
        undone = len(self._undone)
        to_beat = everything and (progress != self._written or self._is_due(began))
        is_more = bool(waiting or undone or self._closed or self._ended_legs)
        if not (to_beat or is_more):
            self._up_to, self._behind = began, False
            return True
        self._behind = self._behind or everything
        answers: Sequence[Answer] = ()
        try:
            if is_more:
                told = progress if to_beat else None
                answers = self._commit(told, waiting, everything=everything)
            else:
                self._beat.alone(progress, self._wall())
        except Exception as error:  # noqa: BLE001 -- whatever it is, nobody is left waiting
            self._refuse(waiting, error)
            return False
        if everything:
            self._up_to, self._behind = began, False
        for (_, future), answer in zip(waiting, answers, strict=True):
            future.set_result(answer)
        if everything:
            self._forget(undone)
        if to_beat:
            self._written, self._beat_at = progress, began
        return True

    def abandon(self, asked: Asked) -> None:
        """End a request that was let in, but in which nobody is interested any more."""
        self._undone.append(failed(asked.opened, asked.run, self._wall()))

    def _run(self) -> None:
        while not self._stopping.is_set():
            everything = time.monotonic() - self._progress_at >= EVERY
            well = self.write(everything=everything)
            try:
                self._journal.tend()
            except JournalError as error:
                log.warning("event=journal_not_grown why=%r", str(error))
            if not well:
                self._stopping.wait(RETRY)
            elif not self._asked:
                self._wake.wait(max(0.0, self._progress_at + EVERY - time.monotonic()))
            self._wake.clear()

    def _let_in(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Let in who is new; returns the others, or refuses all the rest."""
        others: list[Waiting] = []
        for place, (asked, future) in enumerate(waiting):
            try:
                answer = self._door.let_in(asked)
            except Exception as error:  # noqa: BLE001 -- whatever it is, nobody is left waiting
                self._well = False
                self._refuse([*others, *waiting[place:]], error)
                return []
            if answer is None:
                others.append((asked, future))
            else:
                future.set_result(answer)
        return others

    def _next_waiting(self) -> list[Waiting]:
        waiting: list[Waiting] = []
        while self._asked and len(waiting) < LONGEST_GROUP:
            asked, future = self._asked.popleft()
            if future.set_running_or_notify_cancel():
                waiting.append((asked, future))
        return waiting

    def _forget(self, undone: int) -> None:
        for slot in self._closed:
            self._journal.release(slot)
        self._closed.clear()
        self._ended_legs.clear()
        for _ in range(undone):
            self._undone.popleft()

    def _has_more(self) -> bool:
        return bool(self._asked or self._undone or self._journal.closed_slots or self._journal.legs)

    def _is_due(self, now: float) -> bool:
        return now - self._beat_at >= self._beat_every

    def _gather(self) -> None:
        """What has ended; kept until it is committed, however often that is tried."""
        while self._journal.legs and len(self._ended_legs) < LONGEST_GROUP:
            self._ended_legs.append(self._journal.legs.popleft())
        while self._journal.closed_slots and len(self._closed) < LONGEST_GROUP:
            self._closed.append(self._journal.closed_slots.popleft())

    def _commit(
        self, progress: bytes | None, waiting: Sequence[Waiting], *, everything: bool
    ) -> Sequence[Answer]:
        with self._database.write() as connection:
            if everything:
                book.book(connection, self._bookings())
            answers = admit(connection, self._journal.holder, [asked for asked, _ in waiting])
            if progress is not None:
                self._beat.within(connection, progress, self._wall())
        return answers

    def _bookings(self) -> list[Booking]:
        return [
            *list(self._undone),
            *(_of_leg(slot, leg) for slot, leg in self._ended_legs),
            *(slot.booking() for slot in self._closed),
        ]

    def _refuse(self, waiting: Sequence[Waiting], error: Exception) -> None:
        """Nobody is left waiting. One that was written after all is ended by the next group."""
        log.warning("event=ledger_not_written why=%r", str(error))
        for asked, future in waiting:
            if not asked.resume:
                self._undone.append(failed(asked.opened, asked.run, self._wall()))
            future.set_exception(error)

    def _progress(self) -> bytes:
        numbers: list[int] = []
        places = self._backends
        for slot in list(self._journal.open_slots.values()):
            prompt, backend, tokens = slot.prompt_tokens, slot.leg_backend, slot.tokens
            leg, place = 0, 0
            if backend is not None:
                leg, place = slot.legs + 1, places.get(backend, -1)
                if place < 0:
                    place = places[backend] = len(places)
            elif prompt is None and not tokens:
                continue
            of_leg = tokens - slot.leg_base
            # Comparing costs a third of what max() does, and this is done for each stream.
            numbers += (
                slot.serial,
                0 if prompt is None else prompt + 1,
                tokens if tokens > 0 else 0,  # noqa: FURB136
                leg,
                place,
                slot.leg_prompt,
                of_leg if of_leg > 0 else 0,  # noqa: FURB136
            )
        return packed(list(places), numbers) if numbers else b""


def _of_leg(slot: Slot, leg: Leg) -> Booking:
    return Booking(slot.opened, slot.run, slot.prompt_tokens, 0, State.OPEN, "", leg.at, (leg,))
