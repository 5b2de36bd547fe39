"""The clients: always so many streams at once, each followed by the next until it is enough."""

import asyncio
from dataclasses import dataclass, field
from random import Random

import httpx

from benchmarks.rollout.stream import End, Seen, Wanted, follow

STEPS_PER_SECOND = 20.0
SHORTEST, LONGEST = 30.0, 120.0  # seconds a stream lasts
AGAIN_SECONDS = 5.0  # until who was refused asks again
READ_SECONDS = 120.0


@dataclass
class Crowd:
    """``streams`` at once; ``scale`` shortens each. ``seen`` has what came of all of them."""

    url: str
    streams: int
    scale: float
    transport: httpx.AsyncBaseTransport
    seen: list[Seen] = field(default_factory=list)
    running: int = 0
    enough: bool = False

    async def run(self) -> None:
        """Until it is ``enough``, and to the end of what then runs."""
        timeout = httpx.Timeout(READ_SECONDS, connect=5.0)
        async with (
            httpx.AsyncClient(transport=self.transport, timeout=timeout) as client,
            asyncio.TaskGroup() as group,
        ):
            for place in range(self.streams):
                group.create_task(self._one_after_the_other(client, Random(place)))  # noqa: S311

    async def _one_after_the_other(self, client: httpx.AsyncClient, random: Random) -> None:
        # They do not begin all at once, or they would end all at once.
        await asyncio.sleep(random.uniform(0.0, SHORTEST * self.scale))
        while not self.enough:
            seconds = random.uniform(SHORTEST, LONGEST) * self.scale
            self.running += 1
            seen = await follow(client, self.url, Wanted.new(int(seconds * STEPS_PER_SECOND)))
            self.running -= 1
            self.seen.append(seen)
            if seen.end is End.REFUSED:
                await asyncio.sleep(AGAIN_SECONDS * self.scale)
