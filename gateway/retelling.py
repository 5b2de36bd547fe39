"""The end of an answer, given once more to a client that it did not reach. Nothing is billed."""

import asyncio
from collections.abc import Iterator

from gateway import access_log
from gateway.office import Office
from gateway.outcome import How
from gateway.parting import EVENT_STREAM, OK
from gateway.reply import Reply


class Retelling:
    """One answer's end, on its way; belongs to the office's loop. See gateway.office.InFlight.

    It is in flight: so there is one at a time, and the gateway's own end waits for it.
    """

    model = backend = ""
    legs = tokens = 0

    def __init__(
        self, office: Office, request_id: str, caller: str, pieces: Iterator[bytes], reply: Reply
    ) -> None:
        self.id = request_id
        self.caller = caller
        self.began = office.now()
        self._office = office
        self._pieces = pieces
        self._reply = reply
        self._over: How | None = None
        self._paused_at: float | None = None
        self._news = asyncio.Event()
        office.in_flight[self.id] = self

    async def run(self) -> None:
        """Give all of it, as fast as the client reads."""
        office, reply = self._office, self._reply
        office.counts.began()
        try:
            reply.follow(self)
            reply.begin(OK, (*EVENT_STREAM, ("x-request-id", self.id)))
            for piece in self._pieces:
                await self._can_be_sent()
                if self._over is not None:
                    break
                reply.write(piece)
            else:
                reply.end()
            access_log.ended(self, self._over or How.COMPLETE, office.now() - self.began, 0)
        finally:
            del office.in_flight[self.id]
            office.counts.ended(office.now() - self.began)

    async def _can_be_sent(self) -> None:
        await asyncio.sleep(0)  # whether the client reads is told by the loop
        while self._paused_at is not None and self._over is None:
            self._news.clear()
            await self._news.wait()

    # what the client does

    def gone(self) -> None:
        """The client has hung up."""
        self._end(How.GONE)

    def pause(self) -> None:
        """The client does not read."""
        self._paused_at = self._office.now()

    def resume(self) -> None:
        """It does."""
        self._paused_at = None
        self._news.set()

    def _end(self, how: How) -> None:
        self._over = self._over or how
        self._news.set()

    # what those do who look over all requests

    def hand_over(self, why: str) -> bool:
        """No backend works on it."""
        del why
        return False

    def sweep(self, now: float) -> None:
        """Look whether the client takes it."""
        patience = self._office.settings.client_stall_after
        if self._paused_at is not None and now - self._paused_at >= patience:
            self._cut(How.UNREAD)

    def cut(self, reason: str) -> None:
        """End it now: what is in this process's memory alone cannot be gone on with elsewhere."""
        del reason
        self._cut(How.CUT)

    def _cut(self, how: How) -> None:
        self._reply.cut()
        self._end(how)
