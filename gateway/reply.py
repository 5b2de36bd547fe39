"""What one request is, and the answer to it, as HTTP/1.1 frames them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, TypeVar

from gateway.errors import Refusal

Headers = Sequence[tuple[str, str]]

END_OF_CHUNKS = b"0\r\n\r\n"
PHRASES = {int(status): status.phrase for status in HTTPStatus}
NO_BODY = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}
LENGTH = "content-length"

Kind = TypeVar("Kind", bound="Reply")


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


class Connection(Protocol):
    """Where an answer goes; see gateway.wire.Wire."""

    answering: Answering | None

    @property
    def is_open(self) -> bool:
        """Whether anybody is there."""
        ...

    def send(self, data: bytes) -> None:
        """Send bytes, if anybody is there."""
        ...

    def answered(self, *, keep_alive: bool) -> None:
        """An answer has ended: go on with the next request, or close."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class Reply:
    """The answer to one request; every method does nothing once the client is gone.

    ``chunks``: whether the client knows them; else an answer of unknown length ends with the
    connection. ``extra`` headers go out with every answer, whoever gives it. ``comes_again``: a
    client that is told nothing at a stream's end comes again by itself.
    """

    comes_again = False

    def __init__(
        self, wire: Connection, *, keep_alive: bool, head_only: bool = False, chunks: bool = True
    ) -> None:
        self._wire = wire
        self._keep_alive = keep_alive
        self._head_only = head_only
        self._knows_chunks = chunks
        self._chunked = False
        self.extra: Headers = ()
        self.begun = False
        self.ended = False

    def follow(self, answering: Answering) -> None:
        """Tell this one of what becomes of the client, also if it is gone already."""
        self._wire.answering = answering
        if not self._wire.is_open:
            answering.gone()

    def like(self, kind: type[Kind]) -> Kind:
        """The same answer, which has not begun, as one of this kind."""
        other = kind(
            self._wire,
            keep_alive=self._keep_alive,
            head_only=self._head_only,
            chunks=self._knows_chunks,
        )
        other.extra = self.extra
        return other

    def close_after(self) -> None:
        """Close the connection once the answer is sent."""
        self._keep_alive = False

    def begin(self, status: int, headers: Headers) -> None:
        """Send the head of an answer that comes in pieces; its length may be in the headers."""
        if status in NO_BODY:
            headers = [(name, value) for name, value in headers if name != LENGTH]
        elif not any(name == LENGTH for name, _ in headers):
            self._chunked = self._knows_chunks
            self._keep_alive = self._keep_alive and self._chunked
            if self._chunked:
                headers = (*headers, ("transfer-encoding", "chunked"))
        self._head(status, headers)

    @property
    def connection(self) -> Connection | None:
        """Where pieces of the body go that are chunks already; None where there are no chunks."""
        return self._wire if self._chunked and not self._head_only else None

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        if not data or self._head_only:
            return
        self._wire.send(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        """Send the end of the body."""
        if self._chunked and not self._head_only:
            self._wire.send(END_OF_CHUNKS)
        self._done()

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        length = () if status in NO_BODY else ((LENGTH, str(len(body))),)
        self._head(status, (*headers, *length), b"" if self._head_only else body)
        self._done()

    def cut(self) -> None:
        """Break the connection off, so that nobody takes what was sent for a whole answer."""
        self.ended = True
        self._wire.abort()

    def _head(self, status: int, headers: Headers, body: bytes = b"") -> None:
        self.begun = True
        phrase = PHRASES.get(status, "")
        lines = [f"HTTP/1.1 {status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in (*headers, *self.extra)]
        if not self._keep_alive:
            lines.append("connection: close")
        self._wire.send("\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace") + body)

    def _done(self) -> None:
        if not self.ended:
            self.ended = True
            self._wire.answered(keep_alive=self._keep_alive)


class Answerer(Protocol):
    """Whoever answers; see gateway.desk.Desk."""

    def lets_in(self, request: Request) -> bool:
        """Tell whether the body is to be read of a request whose head is there."""
        ...

    def handle(self, request: Request, reply: Reply) -> None:
        """Answer one, now or in a while."""
        ...

    def refuse(self, reply: Reply, refusal: Refusal) -> None:
        """Answer what is no request."""
        ...
