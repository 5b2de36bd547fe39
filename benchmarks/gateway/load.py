"""The clients: many streams at once, what they see, and what the relay uses meanwhile.

    python -m benchmarks.gateway.load PLAN

PLAN is JSON, see Plan; one line of JSON is printed, see Seen. In turn: the streams begin, evenly
over ``ramp``; ``settle`` passes; for ``window`` events and CPU are counted, nothing else happens;
for ``probing`` short requests are made beside the streams, for the time to the first token. The
streams then end by themselves, or are cut after ``patience``.
"""

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

import uvloop

from benchmarks.gateway.tree import Use, use

EVENT = b"data: "
DONE = b"[DONE]"
KEY = "sk-benchmark"


@dataclass(frozen=True)
class Plan:
    """Durations in seconds, rates per second. ``relay``: its process id, 0 for none."""

    port: int
    relay: int
    streams: int
    rate: float
    ramp: float
    settle: float
    window: float
    probing: float
    probes: float
    patience: float

    @property
    def tokens(self) -> int:
        """How many tokens a stream has: it lasts until everything is measured, at its pace."""
        seconds = self.ramp + self.settle + self.window + self.probing
        return int(self.rate * seconds)


@dataclass
class Seen:
    """What came of it. Seconds; ``cpu`` is of the window, ``rss`` in megabytes of all streams.

    ``gaps``: between two reads of one stream in the window. ``whole``: streams that came in full.
    """

    events: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    rss: float = 0.0
    whole: int = 0
    failed: int = 0
    gaps: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)


class Counts:
    """What all clients share. ``gaps`` are noted while ``noting``."""

    def __init__(self) -> None:
        self.events = 0
        self.whole = 0
        self.failed = 0
        self.noting = False
        self.gaps = array("d")


class Client(asyncio.Protocol):
    """One request: what comes of it is counted, not kept."""

    def __init__(self, counts: Counts, request: bytes, tokens: int) -> None:
        loop = asyncio.get_running_loop()
        self._now = time.perf_counter
        self._counts = counts
        self._request = request
        self._tokens = tokens
        self._transport: asyncio.Transport | None = None
        self._events = 0
        self._asked = self._last = 0.0
        self.first: float | None = None
        self.ended: asyncio.Future[bool] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = cast(asyncio.Transport, transport)
        self._asked = self._now()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count."""
        events = data.count(EVENT)
        if not events:
            return
        now = self._now()
        counts = self._counts
        if self.first is None:
            self.first = now - self._asked
        elif counts.noting:
            counts.gaps.append(now - self._last)
        self._last = now
        self._events += events
        counts.events += events
        if DONE in data and not self.ended.done():
            self.ended.set_result(self._events > self._tokens)
            self.hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note an end before the end."""
        del exc
        if not self.ended.done():
            self.ended.set_result(False)

    def hang_up(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()


def request(port: int, tokens: int) -> bytes:
    """One request for a stream of so many tokens, with its usage."""
    body = json.dumps(
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "What does a lifeguard do?"}],
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        f"host: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Load:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._counts = Counts()
        self._seen = Seen()

    async def run(self) -> Seen:
        """Carry it out."""
        plan, counts, seen = self._plan, self._counts, self._seen
        before = self._use()
        clients = [
            await self._begin(plan.tokens, plan.ramp / plan.streams) for _ in range(plan.streams)
        ]
        await asyncio.sleep(plan.settle)
        began, events, used = time.perf_counter(), counts.events, self._use()
        counts.noting = True
        await asyncio.sleep(plan.window)
        counts.noting = False
        after = self._use()
        seen.seconds = time.perf_counter() - began
        seen.events = counts.events - events
        seen.cpu, seen.rss = after.cpu - used.cpu, after.rss - before.rss
        seen.gaps = list(counts.gaps)
        probes = [
            await self._begin(1, 1 / plan.probes) for _ in range(int(plan.probing * plan.probes))
        ]
        ends = [client.ended for client in (*clients, *probes)]
        await asyncio.wait(ends, timeout=plan.patience)
        seen.firsts = [probe.first for probe in probes if probe.first is not None]
        seen.whole = sum(client.ended.done() and client.ended.result() for client in clients)
        seen.failed = sum(probe.first is None for probe in probes)
        for client in (*clients, *probes):
            client.hang_up()
        return seen

    async def _begin(self, tokens: int, wait: float) -> Client:
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        port = self._plan.port
        _, client = await loop.create_connection(
            lambda: Client(self._counts, request(port, tokens), tokens), "127.0.0.1", port
        )
        await asyncio.sleep(max(0.0, began + wait - time.perf_counter()))
        return client

    def _use(self) -> Use:
        return use(self._plan.relay) if self._plan.relay else Use(0.0, 0.0)


def main(arguments: Sequence[str]) -> int:
    """Carry out a plan, and print what was seen."""
    plan = Plan(**json.loads(arguments[0]))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen = runner.run(Load(plan).run())
    print(json.dumps(asdict(seen)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
