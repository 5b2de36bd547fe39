"""The side of the clients: HTTP/1.1 on one connection, one request after the other.

What goes out is written as it comes: a reply is a head, pieces and an end. A client that reads
slowly pauses whoever feeds it, and one that is gone is told to whoever answers it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, cast

import httptools

Headers = Sequence[tuple[str, str]]

LARGEST_HEAD = 64 * 1024
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
END_OF_CHUNKS = b"0\r\n\r\n"
PHRASES = {int(status): status.phrase for status in HTTPStatus}
NO_BODY = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


@dataclass(frozen=True)
class Request:
    """One request; names of headers are in lower case, and of several alike the last counts."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Answering(Protocol):
    """What answers a request, as the connection knows it."""

    def gone(self) -> None:
        """The client has hung up before the answer's end."""
        ...

    def pause(self) -> None:
        """The client does not read: send nothing more for now."""
        ...

    def resume(self) -> None:
        """It reads again."""
        ...


class Reply:
    """The answer to one request; every method does nothing once the client is gone.

    ``extra`` headers go out with every answer, whoever gives it.
    """

    def __init__(self, wire: "Wire", *, keep_alive: bool, head_only: bool) -> None:
        self._wire = wire
        self._keep_alive = keep_alive
        self._head_only = head_only
        self._chunked = False
        self.extra: Headers = ()
        self.begun = False
        self.ended = False

    def follow(self, answering: Answering) -> None:
        """Tell this one of what becomes of the client."""
        self._wire.answering = answering

    def close_after(self) -> None:
        """Close the connection once the answer is sent."""
        self._keep_alive = False

    def begin(self, status: int, headers: Headers) -> None:
        """Send the head of an answer whose length is not known."""
        self._head(status, (*headers, ("transfer-encoding", "chunked")))
        self._chunked = True

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        if data and not self._head_only:
            self._wire.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """Send the end of the body."""
        if self._chunked and not self._head_only:
            self._wire.send(END_OF_CHUNKS)
        self._done()

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        length = () if status in NO_BODY else (("content-length", str(len(body))),)
        self._head(status, (*headers, *length))
        if body and not self._head_only:
            self._wire.send(body)
        self._done()

    def cut(self) -> None:
        """Break the connection off, so that nobody takes what was sent for a whole answer."""
        self.ended = True
        self._wire.abort()

    def _head(self, status: int, headers: Headers) -> None:
        self.begun = True
        phrase = PHRASES.get(status, "")
        lines = [f"HTTP/1.1 {status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in (*headers, *self.extra)]
        if not self._keep_alive:
            lines.append("connection: close")
        self._wire.send("\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace"))

    def _done(self) -> None:
        if not self.ended:
            self.ended = True
            self._wire.answered(keep_alive=self._keep_alive)


Handler = Callable[[Request, Reply], None]


class Wire(asyncio.Protocol):
    """One client's connection.

    ``handle`` is called with each request once it is there in full; the next one is not read before
    the answer has ended. ``largest_body`` is in bytes. While not ``busy`` it waits for a request,
    since ``quiet_since`` of the loop's clock.
    """

    def __init__(self, handle: Handler, largest_body: int, wires: set["Wire"]) -> None:
        self._handle = handle
        self._largest_body = largest_body
        self._wires = wires
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: list[tuple[Request, Reply]] = []
        self.answering: Answering | None = None
        self.busy = False
        self.quiet_since = 0.0
        self._closing = False
        self._begin()

    def _begin(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._body: list[bytes] = []
        self._body_size = 0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        # A stream's transport is one, though uvloop's does not say so.
        self._transport = cast(asyncio.Transport, transport)
        self.quiet_since = asyncio.get_running_loop().time()
        self._wires.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came; what is no HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(HTTPStatus.NOT_IMPLEMENTED, "no other protocol is spoken here")
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")

    def eof_received(self) -> bool:
        """A client that closes its half has hung up."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        del exc
        self._transport = None
        self._wires.discard(self)
        answering, self.answering = self.answering, None
        if answering is not None:
            answering.gone()

    def pause_writing(self) -> None:
        """The client does not read."""
        if self.answering is not None:
            self.answering.pause()

    def resume_writing(self) -> None:
        """It does."""
        if self.answering is not None:
            self.answering.resume()

    # the parser's side

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._target += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._count(len(name) + len(value))
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is there: a body that is announced too large is not waited for."""
        length = self._headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._largest_body:
            self._too_large()
        elif self._headers.get("expect", "").lower() == "100-continue":
            self.send(CONTINUE)

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body_size += len(data)
        if self._body_size > self._largest_body:
            self._too_large()
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is there in full."""
        if self._closing or self._transport is None:
            return
        method = self._parser.get_method().decode("latin-1")
        try:
            url = httptools.parse_url(self._target)
        except httptools.HttpParserInvalidURLError:
            self._refuse(HTTPStatus.BAD_REQUEST, "the request's target is no URL")
            return
        request = Request(
            method=method,
            path=(url.path or b"/").decode("latin-1"),
            query=(url.query or b"").decode("latin-1"),
            headers=self._headers,
            body=b"".join(self._body),
        )
        reply = Reply(self, keep_alive=self._parser.should_keep_alive(), head_only=method == "HEAD")
        self._begin()
        if self.busy:  # a client that did not wait for the answer
            self._waiting.append((request, reply))
            return
        self.busy = True
        self._transport.pause_reading()
        self._handle(request, reply)

    # the reply's side

    def send(self, data: bytes) -> None:
        """Send bytes, if anybody is there."""
        if self._transport is not None and not self._closing:
            self._transport.write(data)

    def answered(self, *, keep_alive: bool) -> None:
        """An answer has ended: go on with the next request, or close."""
        self.busy = False
        self.answering = None
        if self._transport is None:
            return
        if not keep_alive or self._closing:
            self.close()
        elif self._waiting:
            self.busy = True
            self._handle(*self._waiting.pop(0))
        else:
            self.quiet_since = asyncio.get_running_loop().time()
            self._transport.resume_reading()

    def close(self) -> None:
        """Send what is to be sent, and close."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.answering = None
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > LARGEST_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large")

    def _too_large(self) -> None:
        why = f"the body is larger than {self._largest_body} bytes"
        self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        if self._closing:
            return
        if not self.busy:
            reply = Reply(self, keep_alive=False, head_only=False)
            reply.send(
                status, (("content-type", "text/plain; charset=utf-8"),), f"{why}\n".encode()
            )
        self.close()
