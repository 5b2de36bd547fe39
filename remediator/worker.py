"""The loop that hands out what is due: incidents to decide about, attempts to follow.

Several remediators may do so on one database: whoever has taken a backend's lock looks at it, acts
on it and follows what it did; merely to decide that nothing is to be done needs no lock. It only
reads the database itself. What takes long (looking, asking, restarting) is done in a thread
for each backend, so that a server that loads for ten minutes holds up no other.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from remediator.attempts import TakenOverError
from remediator.database import StorageError
from remediator.incident import Attempt, Incident
from remediator.journal import line
from remediator.locks import Locks
from remediator.remedy import Remedy, Take

TICK_SECONDS = 1.0
PAUSE_SECONDS = 0.1
# The others begin with the next turn: a thousand at once would leave the web side no time.
MOST_PER_TURN = 2
FOLLOW_EVERY_SECONDS = 2.0
FORGET_EVERY = timedelta(hours=1)
KEEP_CLOSED = timedelta(days=30)
STALLED_SECONDS = 30.0
REFUSED_SECONDS = 3.0
NEVER = float("-inf")

log = logging.getLogger("remediator")

Job = Callable[[], None]
LockedJob = Callable[[Take], None]


def in_a_thread(job: Job) -> None:
    """Run a job in a thread of its own, which does not keep the program from ending."""
    threading.Thread(target=job, daemon=True).start()


def _nothing_to_take() -> bool:
    return True


class Worker:
    """Never has two jobs of one backend in hand at once. ``turn`` belongs to one thread."""

    def __init__(
        self,
        remedy: Remedy,
        locks: Locks,
        *,
        start: Callable[[Job], None] = in_a_thread,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._remedy = remedy
        self._store = remedy.store
        self._locks = locks
        self._start = start
        self._monotonic = monotonic
        self._awake = threading.Event()
        self._idle = threading.Condition()
        self._in_hand: set[str] = set()
        self._refused: dict[str, float] = {}
        self._followed: dict[int, float] = {}
        self._forget_at: datetime | None = None
        self._last_turn = monotonic()

    def run(self) -> None:
        """Turn until ``remedy.stopping`` is set. Whatever one turn meets, the next one comes."""
        while not self._remedy.stopping.is_set():
            try:
                self.turn()
            except StorageError as error:
                log.error("%s", line(event="storage_failed", why=error))  # noqa: TRY400
            except Exception:
                log.exception("event=turn_failed")
            # Whatever wakes it in this time is looked at together: a turn reads all that is due.
            self._remedy.stopping.wait(PAUSE_SECONDS)
            self._awake.wait(TICK_SECONDS)
            self._awake.clear()

    def turn(self) -> None:
        """Hand out what is due now. Raises StorageError."""
        now = self._remedy.clock()
        self._locks.beat(now)
        self._last_turn = self._monotonic()
        for attempt in self._store.attempts.under_way():
            if self._monotonic() - self._followed.get(attempt.id, NEVER) >= FOLLOW_EVERY_SECONDS:
                self._hand_out(attempt.backend, self._following(attempt))
        due = self._store.incidents.due(now, besides=self._taken(), most=MOST_PER_TURN)
        for incident in due:
            if self._remedy.settings.backend(incident.backend) is None:
                self._remedy.consider(incident.id, _nothing_to_take)  # asks nobody anything
            else:
                self._hand_out(incident.backend, self._considering(incident))
        if len(due) == MOST_PER_TURN:
            self.wake()
        if self._forget_at is None or now >= self._forget_at:
            self._store.incidents.forget(now - KEEP_CLOSED)
            self._forget_at = now + FORGET_EVERY

    def _taken(self) -> set[str]:
        """The backends that we have in hand, and those that another remediator just had."""
        now = self._monotonic()
        with self._idle:
            others = {name for name, at in self._refused.items() if now - at < REFUSED_SECONDS}
            return self._in_hand | others

    def wake(self) -> None:
        """Turn now rather than at the next tick. May be called from any thread."""
        self._awake.set()

    def trouble(self) -> str | None:
        """Why the loop cannot be relied on, or None."""
        quiet = self._monotonic() - self._last_turn
        return f"no turn for {quiet:.0f} s" if quiet > STALLED_SECONDS else None

    def wait_idle(self, timeout: float) -> bool:
        """Wait, at most ``timeout`` seconds, until nothing is in hand; tells whether that is so."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._in_hand, timeout)

    def _following(self, attempt: Attempt) -> LockedJob:
        def job(take: Take) -> None:
            if not take():
                return
            try:
                self._remedy.course.follow(attempt.id)
            finally:
                # From its end on, so that the backend's incidents get their turn in between.
                self._followed[attempt.id] = self._monotonic()

        return job

    def _considering(self, incident: Incident) -> LockedJob:
        def job(take: Take) -> None:
            try:
                self._remedy.consider(incident.id, take)
            except TakenOverError:
                raise
            except Exception:
                later = self._remedy.clock() + timedelta(seconds=self._remedy.limits.recheck_every)
                self._store.incidents.look_again(incident.id, later)
                raise

        return job

    def _hand_out(self, backend: str, job: LockedJob) -> None:
        with self._idle:
            if backend in self._in_hand or self._remedy.stopping.is_set():
                return
            self._in_hand.add(backend)
        lock = _Lock(self._locks, backend)

        def run() -> None:
            try:
                job(lock.take)
            except TakenOverError as error:
                log.warning("%s", line(event="taken_over", backend=backend, why=error))
            except StorageError as error:
                log.error("%s", line(event="storage_failed", backend=backend, why=error))  # noqa: TRY400
            except Exception:
                log.exception("%s", line(event="job_failed", backend=backend))
            finally:
                lock.give_back()
                with self._idle:
                    self._in_hand.discard(backend)
                    if lock.refused:
                        self._refused[backend] = self._monotonic()
                    self._idle.notify_all()
                if not lock.refused:
                    self.wake()

        self._start(run)


class _Lock:
    """A backend's lock for the length of one job. ``refused``: another remediator has it."""

    def __init__(self, locks: Locks, backend: str) -> None:
        self.refused = False
        self._locks = locks
        self._backend = backend
        self._ours = False

    def take(self) -> bool:
        """Take it, if it can be had; tells whether it is ours."""
        self._ours = self._ours or self._locks.take(self._backend)
        self.refused = not self._ours
        return self._ours

    def give_back(self) -> None:
        """Give it back, if it was taken."""
        if not self._ours:
            return
        try:
            self._locks.release(self._backend)
        except StorageError as error:
            log.error("%s", line(event="storage_failed", backend=self._backend, why=error))  # noqa: TRY400
