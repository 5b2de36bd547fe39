"""The side of the servers: one exchange at a time on a kept connection, in pieces as they come."""

import asyncio
import logging
import ssl
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools

from fleet.backend import Backend
from gateway.heads import addressed
from gateway.turn import Turn

# uvicorn closes a connection that was idle for 5 s; one that is closing must not be chosen.
IDLE_SECONDS = 3.0


log = logging.getLogger("gateway")


class UpstreamError(Exception):
    """A server could not be asked, or broke off; the text is one sentence.

    ``stale``: on a kept connection and without a byte of an answer, as one ends that the server was
    closing at that moment.
    """

    def __init__(self, why: str, *, stale: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.stale = stale


class Listener(Protocol):
    """What a leg tells of its answer. Nothing is told after ``ended`` or ``abort``."""

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The head is there."""
        ...

    def body(self, data: bytes) -> None:
        """A piece of the body."""
        ...

    def ended(self, error: UpstreamError | None) -> None:
        """The answer is there in full, or what broke it off."""
        ...


@dataclass(frozen=True)
class Origin:
    """Where a backend listens."""

    host: str
    port: int
    tls: bool
    prefix: str

    @classmethod
    def of(cls, backend: Backend) -> "Origin":
        """The origin of a backend's base URL."""
        url = urlsplit(backend.url)
        tls = url.scheme == "https"
        return cls(url.hostname or "", url.port or (443 if tls else 80), tls, url.path)


class Short(Protocol):
    """The short way for what is one whole chunk; see gateway.quick.Quick."""

    def take(self, data: bytes) -> bool:
        """Take it, if it is a chunk of the kind; tells whether it was."""
        ...


class Leg(asyncio.Protocol):
    """One connection to a server, and the exchange that is on it.

    ``short``: tried first, until it is set anew.
    """

    # Without them a token's way would lead through twice as much memory, which has gone from the
    # processor's caches since the last one.
    __slots__ = (
        "_answered",
        "_asked",
        "_between_chunks",
        "_head_only",
        "_headers",
        "_parser",
        "_pool",
        "_transport",
        "_turn",
        "idle_since",
        "listener",
        "origin",
        "short",
        "used",
    )

    def __init__(self, origin: Origin, turn: Turn) -> None:
        self.origin = origin
        self._turn = turn
        self.idle_since = 0.0
        self.used = False
        self.listener: Listener | None = None
        self.short: Short | None = None
        self._pool: Upstreams | None = None
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._asked = False
        self._answered = False
        self._head_only = False
        self._between_chunks = False

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent on it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        return not self._turn.holds_of(self)

    def ask(
        self,
        head: bytes,
        body: bytes,
        listener: Listener,
        pool: "Upstreams",
        *,
        head_only: bool = False,
    ) -> None:
        """Send a request, and tell the listener of its answer. ``head_only``: it has no body."""
        self.listener = listener
        self._asked = True
        self._answered = False
        self._head_only = head_only
        self._pool = pool
        self._headers = {}
        if self._transport is not None:
            self.resume()  # the last one's client may not have read to its end
            self._transport.write(head + body)

    def pause(self) -> None:
        """Read nothing more for now."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def let_go(self) -> None:
        """Tell nothing more of this answer; the connection is kept if it ends well."""
        self.listener = self.short = None
        self.resume()  # whoever paused it is not interested any more

    def abort(self) -> None:
        """Break off: the server then stops working on it."""
        self.listener = self.short = None
        if self._transport is not None:
            self._transport.abort()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        # A stream's transport is one, though uvloop's does not say so.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """A piece is there; it is taken in this turn of the loop."""
        turn = self._turn
        if not turn.is_planned:
            turn.plan()
        turn.read.append((self, data))

    def take(self, data: bytes) -> None:
        """A piece of the answer; what nobody asked for ends the connection."""
        try:
            short = self.short
            if short is not None and self._between_chunks and short.take(data):
                return  # the parser is between two chunks, and stays there
            if not self._asked:
                self.abort()
                return
            self._answered = True
            self._parser.feed_data(data)
        except Exception as error:  # whatever it is, nobody is left waiting for the rest
            ours = isinstance(error, httptools.HttpParserCallbackError)
            if ours or not isinstance(error, httptools.HttpParserError):
                log.exception("event=error where=answer")
                self._fail("an error of this gateway")
            else:
                self._fail(f"what it answered is no HTTP: {error}")
            self.abort()

    def eof_received(self) -> bool:
        """The server closes: an answer without a length ends here."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The server is gone."""
        self._transport = None
        if self.listener is not None:
            self._fail(f"the connection was lost: {exc}" if exc else "the connection was closed")

    # the parser's side

    def on_message_begin(self) -> None:
        """An answer begins; one more than was asked for must not be taken for the next one's."""
        if not self._asked:
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is there."""
        status = self._parser.get_status_code()
        if status < 200 or not self._asked:  # noqa: PLR2004 -- 1xx are no answers
            return
        if self.listener is not None:
            origin = self.origin
            self.listener.head(status, addressed(self._headers, origin.host, origin.prefix))
        if self._head_only:
            self._end(keep=False)  # the parser would wait for the body that the head tells of

    def on_chunk_header(self) -> None:
        """A chunk begins."""
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        """It ends."""
        self._between_chunks = True

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if self.listener is not None:
            self.listener.body(data)

    def on_message_complete(self) -> None:
        """The answer is there in full."""
        if self._asked and self._parser.get_status_code() >= 200:  # noqa: PLR2004 -- as above
            self._end(keep=self._parser.should_keep_alive())

    def _end(self, *, keep: bool) -> None:
        self._asked = self._between_chunks = False
        listener, self.listener, self.short = self.listener, None, None
        self._parser = httptools.HttpResponseParser(self)
        if keep and self._pool is not None:
            self._pool.give_back(self)
        elif self._transport is not None:
            self._transport.close()
        if listener is not None:
            listener.ended(None)

    def _fail(self, why: str) -> None:
        listener, self.listener, self.short = self.listener, None, None
        if listener is not None:
            listener.ended(UpstreamError(why, stale=self.used and not self._answered))


class Upstreams:
    """The connections to all servers. Belongs to one loop; ``connect_timeout`` is in seconds."""

    def __init__(self, connect_timeout: float, turn: Turn) -> None:
        self._turn = turn
        self._connect_timeout = connect_timeout
        self._idle: defaultdict[Origin, list[Leg]] = defaultdict(list)

    async def leg(self, backend: Backend, *, fresh: bool = False) -> Leg:
        """A connection to a backend: an idle one if there is one, and none is asked for anew.

        Raises UpstreamError where nobody answers within ``connect_timeout``.
        """
        origin = Origin.of(backend)
        now = asyncio.get_running_loop().time()
        idle = self._idle[origin]
        while idle and not fresh:
            leg = idle.pop()
            if leg.is_open and now - leg.idle_since < IDLE_SECONDS:
                leg.used = True
                return leg
            leg.abort()
        return await self._connect(origin)

    async def _connect(self, origin: Origin) -> Leg:
        loop = asyncio.get_running_loop()
        context = ssl.create_default_context() if origin.tls else None
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, leg = await loop.create_connection(
                    lambda: Leg(origin, self._turn), origin.host, origin.port, ssl=context
                )
        except TimeoutError:
            why = f"no connection within {self._connect_timeout:g} s"
            raise UpstreamError(why) from None
        except OSError as error:
            raise UpstreamError(f"no connection: {error.strerror or error}") from None
        return leg

    def give_back(self, leg: Leg) -> None:
        """Keep a connection for the next request."""
        leg.idle_since = asyncio.get_running_loop().time()
        self._idle[leg.origin].append(leg)

    def close(self) -> None:
        """Close what is idle."""
        for idle in self._idle.values():
            for leg in idle:
                leg.abort()
        self._idle.clear()
