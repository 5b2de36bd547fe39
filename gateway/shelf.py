"""What is kept, for a loop that must not wait: streams that end together are one transaction."""

import asyncio
import time
from collections.abc import Callable

from gateway.kept import Kept, Left, Taken
from gateway.seal import NotGood


class Shelf:
    """Belongs to one loop; ``wall`` tells Unix seconds. Raises what the database raises."""

    def __init__(self, kept: Kept, wall: Callable[[], float] = time.time) -> None:
        self._kept = kept
        self._wall = wall
        self._waiting: list[tuple[Left, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(self, left: Left) -> None:
        """Return once it is kept durably: give the token out after that."""
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[None] = loop.create_future()
        self._waiting.append((left, kept))
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        await kept

    async def take(self, token: str, caller: str) -> Taken | NotGood:
        """Take up what a token stands for."""
        return await asyncio.to_thread(self._kept.take, token, caller, self._wall())

    async def take_request(self, request_id: str, caller: str) -> Taken | NotGood:
        """Take up a request of the caller that was cut off without a token."""
        return await asyncio.to_thread(self._kept.take_request, request_id, caller, self._wall())

    async def give_back(self, taken: Taken, caller: str) -> None:
        """Undo taking something up that could not be gone on with: its token is good again."""
        await asyncio.to_thread(self._kept.give_back, taken, caller)

    async def forget(self) -> int:
        """Delete what has expired, and return how many."""
        return await asyncio.to_thread(self._kept.forget, self._wall())

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                streams = [left for left, _ in group]
                error: Exception | None = None
                try:
                    await asyncio.to_thread(self._kept.keep, streams, self._wall())
                except Exception as raised:  # noqa: BLE001 -- told to those who wait
                    error = raised
                for _, kept in group:
                    if kept.done():  # whoever waited was cancelled
                        continue
                    if error is None:
                        kept.set_result(None)
                    else:
                        kept.set_exception(error)
        finally:
            self._writing = None
