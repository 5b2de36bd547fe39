"""One turn of the loop: all that was read in it is handled, and then all of that is written.

What comes at the same time is handled while its code and the caches are warm, and a client gets one
write for it: reading, handling and writing in turn for each event costs twice as much.
"""

import asyncio
import logging
import time
from typing import Protocol

log = logging.getLogger("gateway")


class Reader(Protocol):
    """Whoever has read something; see gateway.upstream.Leg."""

    def take(self, data: bytes) -> None:
        """Handle it."""
        ...

    def abort(self) -> None:
        """Close, for it could not be handled."""
        ...


class Sender(Protocol):
    """Whoever has something to write; see gateway.wire.Wire."""

    def flush(self) -> None:
        """Write it."""
        ...

    def abort(self) -> None:
        """Close, for it could not be written."""
        ...


class Turn:
    """Belongs to one loop.

    ``now``: when the present turn was, in seconds of the loop's clock. ``read``: what was read by
    whom, to be handled when everything was read that is there to be read. ``senders``: who writes
    when that is handled. Both are added to directly, which costs less than a call at each event,
    and who finds that no turn ``is_planned`` plans it.
    """

    def __init__(self) -> None:
        self.now = time.monotonic()
        self.is_planned = False
        self.read: list[tuple[Reader, bytes]] = []
        self.senders: list[Sender] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def holds_of(self, reader: Reader) -> bool:
        """Whether something that it has read is not handled yet."""
        return any(one is reader for one, _ in self.read)

    def plan(self) -> None:
        """Let there be one, for whoever is the first to add to the lists."""
        self.is_planned = True
        if self._loop is None:  # to ask which one runs is a system call in CPython 3.11
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        self.now = time.monotonic()
        read, self.read = self.read, []
        for reader, data in read:
            try:
                reader.take(data)
            except Exception:  # as the loop itself would do it
                log.exception("event=read_failed")
                reader.abort()
        # What is sent from now on is written in the next turn.
        senders, self.senders = self.senders, []
        self.is_planned = False
        for sender in senders:
            try:
                sender.flush()
            except Exception:  # as above: the others have something to write, too
                log.exception("event=write_failed")
                sender.abort()
