"""The requests in the bytes of one connection, and why one of them is none."""

from http import HTTPStatus
from typing import Protocol

import httptools

from gateway.errors import Refusal
from gateway.heads import named
from gateway.reply import Request

LARGEST_HEAD = 64 * 1024
OFFER = frozenset({"connection", "http2-settings", "upgrade"})


class Taker(Protocol):
    """Whoever gets the requests; see gateway.wire.Wire."""

    def lets_in(self, request: Request) -> bool:
        """Tell whether the body is to be read of a request whose head is there."""
        ...

    def asked(self, request: Request, *, keep_alive: bool, chunks: bool) -> None:
        """One is there, in full or without the body that is not read.

        ``chunks``: its client knows them.
        """
        ...

    def expected(self) -> None:
        """One waits to be told to send its body."""
        ...

    def refused(self) -> None:
        """There is a ``refusal``: what comes from now on is not read."""
        ...


class Parser:
    """Of one connection.

    ``expects``: the present request's client waits to be told to send its body; whoever tells it
    sets this back. ``is_over``: nothing more is read, as after a ``refusal`` or the head of a
    request whose body is not let in. ``largest_body`` is in bytes.
    """

    __slots__ = (
        "_body",
        "_body_size",
        "_head_size",
        "_headers",
        "_held",
        "_is_head_done",
        "_largest_body",
        "_parser",
        "_path",
        "_query",
        "_taker",
        "_target",
        "expects",
        "is_over",
        "refusal",
    )

    def __init__(self, taker: Taker, largest_body: int) -> None:
        self._taker = taker
        self._largest_body = largest_body
        self._parser = httptools.HttpRequestParser(self)
        self.refusal: Refusal | None = None
        self.is_over = False
        self._begin()

    def _begin(self) -> None:
        self._target = b""
        self._path = self._query = ""
        self._headers: dict[str, str] = {}
        self._held = 0  # bytes of which nothing was told yet: an unfinished header, say
        self._is_head_done = False
        self._head_size = 0
        self._body: list[bytes] = []
        self._body_size = 0
        self.expects = False

    def feed(self, data: bytes) -> None:
        """Parse what came.

        Raises httptools.HttpParserCallbackError where the taker raised something.
        """
        while data and not self.is_over:
            self._held += len(data)
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = self._without_offer() + data[upgrade.args[0] :]
            except httptools.HttpParserCallbackError:
                raise
            except httptools.HttpParserError:
                self._refuse(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
        if self._held > LARGEST_HEAD:
            self._head_too_large()

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._target += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what comes behind the body is none of the head."""
        self._count(len(name) + len(value))
        if self._is_head_done:
            return
        key, said = name.decode("latin-1").lower(), value.decode("latin-1")
        if key == "connection" and key in self._headers:
            said = f"{self._headers[key]}, {said}"
        self._headers[key] = said

    def on_headers_complete(self) -> None:
        """The head is there: no body is waited for that is too large, or not let in."""
        if self.is_over or self._parser.should_upgrade():
            return  # it comes again, without the offer
        self._is_head_done = True
        try:
            url = httptools.parse_url(self._target)
        except httptools.HttpParserInvalidURLError:
            self._refuse(HTTPStatus.BAD_REQUEST, "the request's target is no URL")
            return
        self._path = (url.path or b"/").decode("latin-1")
        self._query = (url.query or b"").decode("latin-1")
        length = self._headers.get("content-length", "0")
        if length == "0" and "transfer-encoding" not in self._headers:
            return
        request = self._request(b"")
        if not self._taker.lets_in(request):
            self.is_over = True
            self._tell(request, keep_alive=False)
        elif length.isdecimal() and int(length) > self._largest_body:
            self._too_large()
        elif self._headers.get("expect", "").lower() == "100-continue":
            self.expects = True
            self._taker.expected()

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if self.is_over:
            return
        self._held = 0
        self._body_size += len(data)
        if self._body_size > self._largest_body:
            self._too_large()
        else:
            self.expects = False
            self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is there in full."""
        if self.is_over or self._parser.should_upgrade():
            return  # it is not: the parser leaves its body to whatever is spoken next
        request = self._request(b"".join(self._body))
        self._begin()
        self._tell(request, keep_alive=self._parser.should_keep_alive())

    def _request(self, body: bytes) -> Request:
        method = self._parser.get_method().decode("latin-1")
        return Request(method, self._path, self._query, self._headers, body)

    def _tell(self, request: Request, *, keep_alive: bool) -> None:
        chunks = self._parser.get_http_version() != "1.0"
        self._taker.asked(request, keep_alive=keep_alive, chunks=chunks)

    def _without_offer(self) -> bytes:
        """The head of a request that offers to speak another protocol, as one that does not."""
        method = self._parser.get_method().decode("latin-1")
        if method == "CONNECT":
            self._refuse(HTTPStatus.BAD_REQUEST, "this is no proxy")
        version = self._parser.get_http_version()
        lines = [f"{method} {self._target.decode('latin-1')} HTTP/{version}"]
        lines += [f"{k}: {v}" for k, v in self._headers.items() if k not in OFFER]
        lines += [f"connection: {option}" for option in named(self._headers) - OFFER]
        self._parser = httptools.HttpRequestParser(self)
        self._begin()
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _count(self, size: int) -> None:
        self._held = 0
        self._head_size += size
        if self._head_size > LARGEST_HEAD:
            self._head_too_large()

    def _head_too_large(self) -> None:
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large")

    def _too_large(self) -> None:
        why = f"the body is larger than {self._largest_body} bytes"
        self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        if self.refusal is None:
            self.refusal = Refusal(status, why)
            self.is_over = True
            self._taker.refused()
