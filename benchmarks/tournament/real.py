"""A real vLLM as the methods see it: over HTTP, by a clock that runs ten times as fast.

The methods' intervals are public and long (five misses of a request every 5 minutes); with virtual
seconds of a tenth of a real one the same methods with the same numbers need minutes instead of
hours. The server is not scaled: what takes it 60 real seconds are 600 virtual ones.
"""

import json
import time
from dataclasses import replace

from benchmarks.tournament.job import Job
from benchmarks.tournament.posted import Posted
from benchmarks.tournament.seen import FIRST_START, REFUSED, Ticket
from fleet.backend import Backend, Kind
from fleet.fetch import HEALTH, METRICS, Failure, Fetcher
from fleet.reading import Reading

SCALE = 10.0
# In virtual seconds: what every process is older than it is. Ours leaves one alone that has just
# been started; the others know no such thing, and here nothing is to be hidden behind it.
OLDER = 7200.0
PAUSE_TIMEOUT = 5.0
ANY_TOKEN = 42


class Clock:
    """The virtual clock: ``scale`` seconds of it in one real second, from 0."""

    def __init__(self, scale: float = SCALE) -> None:
        self.scale = scale
        self._began = time.monotonic()
        self._began_at = time.time()

    def now(self) -> float:
        """The virtual time in seconds."""
        return (time.monotonic() - self._began) * self.scale

    def of(self, unix: float) -> float:
        """The virtual time of a moment of the wall clock; before 0 where it was before."""
        return (unix - self._began_at) * self.scale

    def real(self, seconds: float) -> float:
        """How many real seconds so many virtual ones take; 0 where they are over."""
        return max(0.0, seconds / self.scale)


class RealServer:
    """``Seen``, for one method in one thread.

    The ``now`` that it is told is not used: the clock goes on by itself. An exchange's timeout is
    in real seconds, because neither the server nor the machine is faster. ``sent_to_pending``: how
    many requests were sent while the page, read just before, showed anything running or waiting.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self.sent_to_pending = 0
        self._url = url
        self._clock = clock
        self._fetcher = Fetcher(Backend("server", url, Kind.VLLM, 0.0, 0.0), "tournament")
        self._open: dict[Ticket, Posted] = {}
        self._sent = 0

    def metrics(self, now: float, timeout: float) -> Reading | Failure:
        """GET /metrics; the start time is one of the virtual clock, and ``OLDER``."""
        del now
        page = self._fetcher.get(METRICS, timeout=timeout)
        if isinstance(page, Failure):
            return page
        reading = Reading.from_page(page.text)
        if reading.start_time is None:
            return reading
        started = FIRST_START + self._clock.of(reading.start_time) - OLDER
        return replace(reading, start_time=started)

    def health(self, now: float, timeout: float) -> Failure | None:
        """GET /health."""
        del now
        answer = self._fetcher.get(HEALTH, timeout=timeout)
        return answer if isinstance(answer, Failure) else None

    def is_paused(self, now: float) -> bool | None:
        """GET /is_paused, which only a server in development mode has."""
        del now
        page = self._fetcher.get("/is_paused", timeout=PAUSE_TIMEOUT)
        return None if isinstance(page, Failure) else json.loads(page.text)["is_paused"] is True

    def send(self, now: float, engine: str | None, prompt: int, target: int) -> Ticket | Failure:
        """POST a completion, after a look at the page."""
        reading = self.metrics(now, PAUSE_TIMEOUT)
        if isinstance(reading, Reading) and pending(reading):
            self.sent_to_pending += 1
        self._sent += 1
        job = Job(f"probe-{self._sent}", prompt, target)
        ticket = Ticket(job, 0 if engine is None else int(engine))

        def on_end(whole: bool) -> None:  # noqa: FBT001 -- Posted's signature
            if whole:
                job.done_at = self._clock.now()
            else:
                ticket.error_at = self._clock.now()

        try:
            self._open[ticket] = Posted(self._url, [ANY_TOKEN] * prompt, target, engine, on_end)
        except OSError:
            return REFUSED
        return ticket

    def answered_at(self, ticket: Ticket, now: float) -> float | None:
        """When the answer was complete."""
        del now
        return ticket.job.done_at

    def abandon(self, ticket: Ticket, now: float) -> None:
        """Hang up, if it is still open."""
        del now
        posted = self._open.pop(ticket, None)
        if posted is not None:
            posted.hang_up()

    def close(self) -> None:
        """Hang up whatever is open."""
        for ticket in list(self._open):
            self.abandon(ticket, 0.0)
        self._fetcher.close()


def pending(reading: Reading) -> bool:
    """Whether the page shows anything running or waiting."""
    return any(engine.anything_pending for engine in reading.engines.values())
