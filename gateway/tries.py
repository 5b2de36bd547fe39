"""How a client goes on with a stream that was cut: where, when, and when it gives up. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from gateway.splice import Mode, Splice

# Answers after which another try may do better.
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
# Those that a token may be to blame for: a try whose answer got lost has spent it.
MAYBE_THE_TOKEN = frozenset({400, 403, 404, 410})
# It is not here, or not any more: it was taken up elsewhere.
NOT_HERE = frozenset({404, 410})
LONGEST_SENTENCE = 300


class InterruptedStreamError(httpx.RemoteProtocolError):
    """A stream was cut and could not be gone on with.

    ``received`` are the events that came, as bytes. ``last_event_id`` and ``resume_token`` are what
    to go on by later.
    """

    def __init__(self, why: str, splice: Splice, received: bytes, request: httpx.Request) -> None:
        super().__init__(f"the stream was interrupted: {why}", request=request)
        self.last_event_id = splice.last_event_id
        self.resume_token = splice.token
        self.received = received


@dataclass(frozen=True)
class Patience:
    """How long a client goes on trying; durations in seconds.

    ``tries`` in a row may bring nothing new. The first is made at once, the next after
    ``first_wait``, which doubles up to ``longest_wait``; a gateway that says how long counts, up to
    ``longest_asked``.
    """

    tries: int = 8
    first_wait: float = 0.5
    longest_wait: float = 10.0
    longest_asked: float = 60.0


class Tries:
    """One stream's tries. ``others`` are origins that are asked in turn after the first one's.

    Raises InterruptedStreamError, and ValueError for an origin that is none.
    """

    def __init__(self, request: httpx.Request, others: Sequence[str], patience: Patience) -> None:
        self.splice = Splice()
        self._first = request
        self._origins = (request.url, *map(_origin, others))
        self._patience = patience
        self._at = 0
        self._failures = 0
        self._unknown = 0  # gateways in a row that do not have it
        self._asked: float | None = None
        self._why = ""
        self._received = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the answer, and return what of them the caller gets."""
        given = self.splice.feed(data)
        if self.splice.request is not None:
            self._received += given
        return given

    def cut(self, why: str) -> None:
        """Note that a connection that brought events has ended before its time."""
        if self.splice.moved:
            self._failures = 0
        self._note(self.splice.why if self.splice.mode is not Mode.RUNNING else why)

    def failed(self, why: str) -> None:
        """Note that nobody answered."""
        self._unknown = 0
        self._note(why)

    def accepts(self, status: int, headers: Mapping[str, str]) -> bool:
        """Whether an answer goes on with the stream; then it has begun."""
        accepted = status == httpx.codes.OK and is_stream(headers)
        if accepted:
            self._unknown = 0
            self.splice.begin()
        return accepted

    def refused(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Note what was answered instead; raises where it is of no use to ask again."""
        self._note(f"{status}: {_sentence(body)}")
        if status in AGAIN:
            self._unknown = 0  # this one may have it
            after = headers.get("retry-after", "")
            self._asked = float(after) if after.isdecimal() else None
        elif status in MAYBE_THE_TOKEN and self.splice.token is not None:
            self.splice.token = None
        elif status in NOT_HERE and self._unknown < len(self._origins) - 1:
            self._unknown += 1  # the end of a complete answer is at the gateway that gave it
        elif status != httpx.codes.OK:
            raise self._given_up()

    def wait(self) -> float:
        """Return how long to wait before the next try; raises when there were enough."""
        if self._failures > self._patience.tries:
            raise self._given_up()
        asked, self._asked = self._asked, None
        if asked is not None:
            return min(asked, self._patience.longest_asked)
        if self._failures <= 1:
            return 0.0
        doubled = self._patience.first_wait * 2.0 ** (self._failures - 2)
        return min(doubled, self._patience.longest_wait)

    def request(self) -> httpx.Request:
        """Return the request that asks the next origin for the rest."""
        self._at = (self._at + 1) % len(self._origins)
        return self._to(self._at, self.splice.headers())

    def first_requests(self) -> Sequence[httpx.Request]:
        """Return the requests to begin with: the caller's own, then the same to other origins."""
        others = [self._to(at, {}) for at in range(1, len(self._origins))]
        return (self._first, *others)

    def began_at(self, place: int) -> None:
        """Note which of ``first_requests`` was answered."""
        self._at = place

    def _to(self, at: int, more: Mapping[str, str]) -> httpx.Request:
        origin = self._origins[at]
        first = self._first
        headers = first.headers.copy()
        url = first.url.copy_with(scheme=origin.scheme, host=origin.host, port=origin.port)
        if at:
            headers["host"] = url.netloc.decode("ascii")
        headers.update(more)
        return httpx.Request(
            first.method, url, headers=headers, content=first.content, extensions=first.extensions
        )

    def _note(self, why: str) -> None:
        self._failures += 1
        self._why = why

    def _given_up(self) -> InterruptedStreamError:
        received = bytes(self._received)
        return InterruptedStreamError(self._why, self.splice, received, self._first)


def is_stream(headers: Mapping[str, str]) -> bool:
    """Whether an answer is events that can be read as they are."""
    encoding = headers.get("content-encoding", "identity")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "text/event-stream" and encoding == "identity"


def _origin(text: str) -> httpx.URL:
    url = httpx.URL(text)
    if url.scheme not in ("http", "https") or not url.host or url.path.strip("/") or url.query:
        raise ValueError(f"{text!r} is not an origin: https://host[:port]")
    return url


def _sentence(body: bytes) -> str:
    """What a refusal says, in OpenAI's shape or as text."""
    try:
        said = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        said = body.decode("utf-8", errors="replace")
    return " ".join(str(said).split())[:LONGEST_SENTENCE]
