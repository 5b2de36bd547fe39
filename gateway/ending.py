"""The gateway's own end, from SIGTERM to exit, within its window.

Invariant: the listener stays open and liveness stays well to the end. First readiness alone turns
bad; after ``propagation`` new requests are refused with 503; what is in flight at ``margin`` before
the window ends is cut with a frame that says how to go on; the bill is written; then it is over.
"""

import asyncio
import logging

from gateway.counts import Where
from gateway.mishap import outlived
from gateway.office import Office

LOOK_EVERY_SECONDS = 0.1
LAST_SECONDS = 2.0

log = logging.getLogger("gateway")


class Ending:
    """Belongs to the office's loop; ``told`` is called by signals."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._told = asyncio.Event()
        self._at_once = asyncio.Event()

    def told(self) -> None:
        """Begin to end; told a second time, end at once."""
        if self._told.is_set():
            self._at_once.set()
        self._told.set()
        self._office.ready = False

    async def run(self) -> None:
        """Wait to be told, and return when nothing is in flight any more."""
        await self._told.wait()
        office, settings = self._office, self._office.settings
        began = office.now()
        log.info("event=draining in_flight=%d", len(office.in_flight))
        await self._wait(began + settings.propagation, until_empty=False)
        office.closing = True
        await self._wait(began + settings.window - settings.margin, until_empty=True)
        left = list(office.in_flight.values())
        if left:
            log.warning("event=cutting in_flight=%d", len(left))
        for request in left:
            with outlived(office.counts, Where.REQUEST, request.id):
                request.cut("shutdown")
        # Whoever was cut writes its last frame and its bill, even where there is no time left.
        await self._empty(max(began + settings.window, office.now() + LAST_SECONDS))

    async def _wait(self, until: float, *, until_empty: bool) -> None:
        while self._office.now() < until and not self._at_once.is_set():
            if until_empty and not self._office.in_flight:
                return
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _empty(self, until: float) -> None:
        while self._office.now() < until:
            if not self._office.in_flight:
                return
            await asyncio.sleep(LOOK_EVERY_SECONDS)
