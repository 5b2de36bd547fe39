"""The side of the clients: HTTP/1.1 on one connection, one request after the other.

What goes out is written as it comes. A client that reads slowly pauses whoever feeds it, and its
next request waits until it has read; one that is gone is told to whoever answers it: so the
connection is read from while it is answered, until it sends the next request before it has the
answer.
"""

import asyncio
import logging
import os
from collections import deque
from typing import cast

from gateway.errors import Refusal
from gateway.parse import Parser
from gateway.reply import Answerer, Answering, Reply, Request
from gateway.turn import Turn

MOST_UNSENT = 64 * 1024
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# What a refused client is still sending is read for so long: with bytes unread the connection
# would be reset, and the refusal lost.
LINGER_SECONDS = 2.0

log = logging.getLogger("gateway")


class Wire(asyncio.Protocol):
    """One client's connection.

    ``desk`` is given each request once it is there, and the next one when the answer has ended; of
    those that came together one in a turn of the loop, for the others' sake. ``largest_body`` is in
    bytes. While not ``busy`` it waits for a request, since ``quiet_since`` of the loop's clock.
    """

    __slots__ = (  # for the reason that gateway.upstream.Leg has
        "__weakref__",
        "_closing",
        "_descriptor",
        "_desk",
        "_full",
        "_going_on",
        "_is_behind",
        "_parser",
        "_transport",
        "_turn",
        "_unsent",
        "_waiting",
        "_wires",
        "answering",
        "busy",
        "quiet_since",
    )

    def __init__(self, desk: Answerer, largest_body: int, wires: set["Wire"], turn: Turn) -> None:
        self._desk = desk
        self._wires = wires
        self._turn = turn
        self._unsent = b""
        self._is_behind = False  # something is left for the loop to write
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._parser = Parser(self, largest_body)
        self._waiting: deque[tuple[Request, Reply]] = deque()
        self._going_on = False
        self._closing = False
        self._full = False
        self.answering: Answering | None = None
        self.busy = False
        self.quiet_since = 0.0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        # A stream's transport is one, though uvloop's does not say so.
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        self._descriptor = -1 if sock is None else sock.fileno()
        self.quiet_since = asyncio.get_running_loop().time()
        self._wires.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came; what is no HTTP ends the connection."""
        try:
            self._parser.feed(data)
            self._go_on()
        except Exception:
            log.exception("event=error where=connection")
            self.abort()
            return
        if self._waiting and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """A client that closes its half has hung up."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        del exc
        self._transport = None
        self._waiting.clear()
        self._wires.discard(self)
        answering, self.answering = self.answering, None
        if answering is not None:
            answering.gone()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._full = True
        if self.answering is not None:
            self.answering.pause()

    def resume_writing(self) -> None:
        """It does."""
        self._full = False
        if self.answering is not None:
            self.answering.resume()
        else:
            self._go_on()

    # the parser's side

    def lets_in(self, request: Request) -> bool:
        """Tell whether the body is to be read of a request whose head is there."""
        return self._desk.lets_in(request)

    def asked(self, request: Request, *, keep_alive: bool, chunks: bool) -> None:
        """A request is there; it is handled when all is parsed that came with it."""
        if self._closing or self._transport is None:
            return
        head_only = request.method == "HEAD"
        reply = Reply(self, keep_alive=keep_alive, head_only=head_only, chunks=chunks)
        self._waiting.append((request, reply))

    def expected(self) -> None:
        """Tell the client to send its request's body, once it is the next one."""
        if self._parser.expects and not self.busy and not self._waiting:
            self._parser.expects = False
            self.send(CONTINUE)

    def refused(self) -> None:
        """Read no more requests here: it is said when those before this one are answered."""

    # the reply's side

    @property
    def is_open(self) -> bool:
        """Whether anybody is there."""
        return self._transport is not None

    def send(self, data: bytes) -> None:
        """Send bytes in this turn of the loop, if anybody is there."""
        if self._transport is None or self._closing:
            return
        if self._unsent:
            self._unsent += data
        else:
            self._unsent = data
            turn = self._turn
            if not turn.is_planned:
                turn.plan()
            turn.senders.append(self)
        if len(self._unsent) > MOST_UNSENT:  # a client that does not read is to be noticed
            self.flush()

    def flush(self) -> None:
        """Write what was sent in this turn."""
        transport, data = self._transport, self._unsent
        if transport is None or not data:
            return
        self._unsent = b""
        if self._is_behind and not transport.get_write_buffer_size():
            self._is_behind = False
        # The way through the loop costs more than the system call itself. The descriptor is ours
        # until connection_lost: both asyncio and uvloop close it after that.
        if not self._is_behind:
            try:
                written = os.write(self._descriptor, data)
            except OSError:  # full, or broken; the loop knows what to do about either
                written = 0
            if written == len(data):
                return
            data = data[written:]
            self._is_behind = True
        transport.write(data)

    def answered(self, *, keep_alive: bool) -> None:
        """An answer has ended: go on with the next request, or close."""
        self.busy = False
        self.answering = None
        if self._transport is None:
            return
        if self._parser.is_over and not (keep_alive or self._closing):
            self.linger()
            return
        if not keep_alive or self._closing:
            self.close()
            return
        self.quiet_since = asyncio.get_running_loop().time()
        self._go_on()

    def close(self) -> None:
        """Send what is to be sent, and close."""
        self.flush()
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def sweep(self, now: float, idle: float, unread: float) -> None:
        """Close it when quiet for ``idle`` seconds, and at once after ``unread`` more."""
        quiet = 0.0 if self.busy else now - self.quiet_since
        if quiet > idle + unread:
            self.abort()
        elif quiet > idle and not self._closing:
            self.close()

    def abort(self) -> None:
        """Close at once; what was sent is on the bill, so it still goes out if it can."""
        self.flush()
        self.answering = None
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        """Handle the next one that waits; an answer that is given at once comes back here."""
        if self._going_on:
            return
        if self._waiting and not (self.busy or self._full or self._closing):
            self.busy = self._going_on = True
            try:
                self._desk.handle(*self._waiting.popleft())
            finally:
                self._going_on = False
        if self.busy or self._full or self._closing:
            return
        if self._transport is None or self._transport.is_closing():
            return
        if self._waiting:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._have_turn)
            return
        if self._parser.refusal is not None:
            self._say_refusal(self._parser.refusal)
            return
        self._transport.resume_reading()
        self.expected()

    def _have_turn(self) -> None:
        """Go on in another turn of the loop."""
        self._going_on = False
        self._go_on()

    def _say_refusal(self, refusal: Refusal) -> None:
        self.busy = True
        reply = Reply(_Lingering(self), keep_alive=False)
        self._desk.refuse(reply, refusal)

    def linger(self) -> None:
        """Close our half, and read what the client still sends, for a while."""
        self.flush()
        self._closing = True
        transport = self._transport
        if transport is not None:
            transport.write_eof()
            transport.resume_reading()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, transport.abort)


class _Lingering:
    """A connection whose last answer this is."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.answering: Answering | None = None

    @property
    def is_open(self) -> bool:
        """Whether anybody is there."""
        return self._wire.is_open

    def send(self, data: bytes) -> None:
        """Send bytes, if anybody is there."""
        self._wire.send(data)

    def answered(self, *, keep_alive: bool) -> None:
        """Close, but not before the client has had time to read."""
        del keep_alive
        self._wire.linger()

    def abort(self) -> None:
        """Close at once."""
        self._wire.abort()
