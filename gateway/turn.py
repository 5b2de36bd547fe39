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


class Turn:
    """Belongs to one loop. ``now``: when the present turn was, in seconds of the loop's clock."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self._is_planned = False
        self._read: list[tuple[Reader, bytes]] = []
        self._senders: list[Sender] = []

    def read(self, reader: Reader, data: bytes) -> None:
        """Handle this when everything was read that is there to be read."""
        if not self._is_planned:
            self._plan()
        self._read.append((reader, data))

    def write(self, sender: Sender) -> None:
        """Let it write when everything that was read is handled."""
        if not self._is_planned:
            self._plan()
        self._senders.append(sender)

    def _plan(self) -> None:
        self._is_planned = True
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self.now = time.monotonic()
        read, self._read = self._read, []
        for reader, data in read:
            try:
                reader.take(data)
            except Exception:  # as the loop itself would do it
                log.exception("event=read_failed")
                reader.abort()
        # What is sent from now on is written in the next turn.
        senders, self._senders = self._senders, []
        self._is_planned = False
        for sender in senders:
            sender.flush()
