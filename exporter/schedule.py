"""When whose poll is due: a few threads for thousands of backends, and none holds up another.

A thread for each backend would be simpler, but thousands of threads that come to life at once
(after the machine stood still for some seconds, say) contend for Python's lock so hard that none
gets on, and do not recover. So polls are handed to threads that are free. A poll that takes long,
because its server hangs, drips or floods, keeps its thread; another is started for the next poll.
Only polls that have just begun are limited in number.
"""

import heapq
import itertools
import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

# Polls that began less than this many seconds ago, and how many of them there may be: one that is
# older waits for its server and takes no time of the others.
FRESH_SECONDS = 0.01
MOST_FRESH = 3
# A thread that nobody has needed for so long ends.
SPARE_SECONDS = 60.0
# Where no thread can be had the poll is tried again so many seconds later.
NO_THREAD_SECONDS = 1.0
NAME = "polls"


@dataclass(eq=False)
class Turn:
    """One backend's place in the schedule: polls at ``due`` and each ``interval`` after it.

    ``poll`` is given how many seconds late it begins. ``lock`` is held while it runs.
    """

    name: str
    poll: Callable[[float], object]
    interval: float
    due: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: bool = False
    running: bool = False
    began: float = 0.0


class Schedule:
    """Hands out polls as they fall due. Safe for many threads.

    Invariants: polls of one turn follow each other on its grid, a missed one is left out and not
    made up for; no poll of a turn begins once it is removed; polls that share a lock never overlap.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._due: list[tuple[float, int, Turn]] = []
        self._fresh: deque[Turn] = deque()
        self._work: queue.SimpleQueue[Turn] = queue.SimpleQueue()
        self._free = 0
        self._workers: set[threading.Thread] = set()
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether polls are handed out."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin; once, and not again after an end."""
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def add(self, turn: Turn) -> None:
        """Take up a turn."""
        with self._changed:
            self._push(turn)
            self._changed.notify()

    def remove(self, turn: Turn) -> None:
        """Let a turn end; a poll under way goes on to its end."""
        with self._changed:
            turn.over = True

    def close(self, timeout: float) -> None:
        """End, and wait for the polls under way, ``timeout`` seconds in all."""
        deadline = self._monotonic() + timeout
        with self._changed:
            self._closing = True
            for _, _, turn in self._due:
                turn.over = True
            self._changed.notify_all()
            workers = tuple(self._workers)
        if self._thread is not None:
            self._thread.join(timeout)
        for _ in workers:
            self._work.put(_NOTHING)
        for worker in workers:
            worker.join(max(0.0, deadline - self._monotonic()))

    def _push(self, turn: Turn) -> None:
        heapq.heappush(self._due, (turn.due, next(self._order), turn))

    def _run(self) -> None:
        with self._changed:
            while not self._closing:
                self._changed.wait(self._hand_out())

    def _hand_out(self) -> float | None:
        """Hand out what is due; for how many seconds there is nothing to do, None for ever."""
        while self._due:
            now = self._monotonic()
            due, _, turn = self._due[0]
            if due > now:
                return due - now
            if turn.over:
                heapq.heappop(self._due)
                continue
            while self._fresh and not (
                self._fresh[0].running and now - self._fresh[0].began < FRESH_SECONDS
            ):
                self._fresh.popleft()
            if len(self._fresh) >= MOST_FRESH:
                return self._fresh[0].began + FRESH_SECONDS - now
            heapq.heappop(self._due)
            if self._free == 0 and not self._hire():
                turn.due = now + NO_THREAD_SECONDS
                self._push(turn)
                continue
            self._free -= 1
            turn.running, turn.began = True, now
            self._fresh.append(turn)
            self._work.put(turn)
        return None

    def _hire(self) -> bool:
        """Start one more thread; whether that was possible."""
        worker = threading.Thread(target=self._serve, name=f"{NAME}-worker", daemon=True)
        try:
            worker.start()
        except RuntimeError as error:
            log.error("event=no_thread why=%s", error)  # noqa: TRY400 -- it says all there is
            return False
        self._workers.add(worker)
        self._free += 1
        return True

    def _serve(self) -> None:
        while (turn := self._next()) is not _NOTHING:
            self._poll(turn)
        with self._changed:
            self._workers.discard(threading.current_thread())

    def _next(self) -> Turn:
        while True:
            try:
                return self._work.get(timeout=SPARE_SECONDS)
            except queue.Empty:
                with self._changed:
                    # What was handed out meanwhile is for one of those that are counted as free.
                    if self._work.empty() and self._free > 0:
                        self._free -= 1
                        return _NOTHING

    def _poll(self, turn: Turn) -> None:
        with turn.lock:
            if not turn.over:
                try:
                    turn.poll(max(0.0, self._monotonic() - turn.due))
                except Exception:
                    # A bug in one look must not end the watch; the snapshot ages and says so.
                    log.exception("event=poll_failed backend=%s", turn.name)
        with self._changed:
            turn.running = False
            missed = math.floor((self._monotonic() - turn.due) / turn.interval)
            turn.due += turn.interval * (missed + 1)
            self._free += 1
            if not turn.over and not self._closing:
                self._push(turn)
            self._changed.notify()


_NOTHING = Turn("", lambda _: None, 1.0, 0.0)
