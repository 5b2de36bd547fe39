"""The requests in a connection's bytes, however they are cut."""

from dataclasses import dataclass, field

import pytest

from gateway.parse import LARGEST_HEAD, Parser
from gateway.reply import Request

LARGEST_BODY = 100
OFFER = b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


@dataclass(frozen=True)
class Asked:
    """A request as it was told."""

    line: str
    body: bytes
    keep_alive: bool = True
    chunks: bool = True


@dataclass
class FakeTaker:
    """Notes what it is told."""

    asked_for: list[Asked] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    expected_times: int = 0
    refused_times: int = 0
    lets_all_in: bool = True
    heads: list[str] = field(default_factory=list)

    def lets_in(self, request: Request) -> bool:
        assert not request.body
        self.heads.append(f"{request.method} {request.path}?{request.query}")
        return self.lets_all_in

    def asked(self, request: Request, *, keep_alive: bool, chunks: bool) -> None:
        query = f"?{request.query}" if request.query else ""
        line = f"{request.method} {request.path}{query}"
        self.asked_for.append(Asked(line, request.body, keep_alive, chunks))
        self.headers.append(dict(request.headers))

    def expected(self) -> None:
        self.expected_times += 1

    def refused(self) -> None:
        self.refused_times += 1


@pytest.fixture
def taker() -> FakeTaker:
    return FakeTaker()


@pytest.fixture
def parser(taker: FakeTaker) -> Parser:
    return Parser(taker, LARGEST_BODY)


def post(*headers: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    lines = (b"POST /v1/completions HTTP/" + version, b"Content-Length: %d" % len(body), *headers)
    return b"\r\n".join((*lines, b"", body))


SAID = Asked("POST /v1/completions", b"abc")
CHUNKED = (
    b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\nTrailer: t\r\n\r\n"
)
PIPELINED = {
    "sized": post(body=b"abc"),
    "chunked": CHUNKED,
    "offering": post(b"Connection: Upgrade", OFFER[:-2], body=b"abc"),
    "offering in chunks": CHUNKED.replace(b"\r\n", b"\r\nConnection: Upgrade\r\n" + OFFER, 1),
}


@pytest.mark.parametrize("first", PIPELINED)
@pytest.mark.parametrize("second", PIPELINED)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_each_is_told_once_and_in_full_however_the_bytes_come(
    parser: Parser, taker: FakeTaker, first: str, second: str, size: int
) -> None:
    data = PIPELINED[first] + PIPELINED[second] + b"GET /v1/models?x=1 HTTP/1.1\r\n\r\n"
    for start in range(0, len(data), size):
        parser.feed(data[start : start + size])
    assert taker.asked_for == [SAID, SAID, Asked("GET /v1/models?x=1", b"")]
    assert parser.refusal is None


@pytest.mark.parametrize(
    ("option", "version", "keep_alive", "chunks"),
    [
        (b"Upgrade", b"1.1", True, True),
        (b"close, Upgrade", b"1.1", False, True),
        (b"Upgrade , Close", b"1.1", False, True),
        (b"Upgrade", b"1.0", False, False),
        (b"Upgrade, keep-alive", b"1.0", True, False),
    ],
)
def test_an_offer_is_passed_over_and_the_rest_of_its_head_is_not(  # noqa: PLR0913 -- one table
    parser: Parser,
    taker: FakeTaker,
    option: bytes,
    version: bytes,
    *,
    keep_alive: bool,
    chunks: bool,
) -> None:
    head = (b"Connection: " + option, OFFER[:-2], b"X-Request-Id: r1")
    parser.feed(post(*head, body=b"abc", version=version))
    assert taker.asked_for == [Asked("POST /v1/completions", b"abc", keep_alive, chunks)]
    (headers,) = taker.headers
    assert headers["x-request-id"] == "r1"
    assert not headers.keys() & {"upgrade", "http2-settings"}


@pytest.mark.parametrize("offer", [(), (b"Connection: Upgrade", OFFER[:-2])])
def test_who_waits_to_be_told_to_send_its_body_is_told_once(
    parser: Parser, taker: FakeTaker, offer: tuple[bytes, ...]
) -> None:
    request = post(b"Expect: 100-continue", *offer, body=b"abc")
    parser.feed(request[:-3])
    assert (taker.expected_times, parser.expects) == (1, True)
    parser.feed(request[-3:])
    assert (taker.expected_times, parser.expects) == (1, False)
    assert taker.asked_for == [SAID]


@pytest.mark.parametrize(
    ("data", "status", "why"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "this is not HTTP/1.1"),
        (b"CONNECT example.org:443 HTTP/1.1\r\n\r\n", 400, "this is no proxy"),
        (b"GET /\xff\x00 HTTP/1.1\r\n\r\n", 400, "this is not HTTP/1.1"),
        (post(b"Transfer-Encoding: chunked", body=b"abc"), 400, "this is not HTTP/1.1"),
        (post(b"Content-Length: 4", body=b"abcd"), 400, "this is not HTTP/1.1"),
        (post(b"X: " + b"x" * LARGEST_HEAD), 431, "the head is too large"),
        (post(body=b"x" * 101), 413, "the body is larger than 100 bytes"),
        (post(b"Connection: Upgrade", OFFER[:-2], body=b"x" * 101), 413, "the body is larger"),
        (CHUNKED.replace(b"1\r\na", b"65\r\n" + b"x" * 101), 413, "the body is larger"),
    ],
)
def test_what_is_none_is_refused_once_and_nothing_is_read_after_it(
    parser: Parser, taker: FakeTaker, data: bytes, status: int, why: str
) -> None:
    parser.feed(data)
    parser.feed(post(body=b"abc"))
    assert parser.refusal is not None
    assert parser.refusal.status == status
    assert why in parser.refusal.message
    assert taker.refused_times == 1
    assert taker.asked_for == []


def test_what_comes_behind_the_body_is_no_header_but_counts_as_one(
    parser: Parser, taker: FakeTaker
) -> None:
    head = b"Authorization: Bearer mine\r\nConnection: X-Mine\r\nConnection: keep-alive\r\n"
    asked = CHUNKED.replace(b"\r\n", b"\r\n" + head, 1)
    parser.feed(asked.replace(b"Trailer: t", b"Authorization: Bearer other\r\nX-Resume: never"))
    assert taker.asked_for == [SAID]
    assert taker.headers == [
        {
            "transfer-encoding": "chunked",
            "authorization": "Bearer mine",
            "connection": "X-Mine, keep-alive",
        }
    ]
    parser.feed(CHUNKED.replace(b"Trailer: t", b"x: " + b"x" * LARGEST_HEAD))
    assert parser.refusal is not None
    assert parser.refusal.status == 431


def test_a_body_that_is_announced_too_large_is_not_waited_for(
    parser: Parser, taker: FakeTaker
) -> None:
    parser.feed(b"POST / HTTP/1.1\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n")
    assert taker.refused_times == 1
    assert taker.expected_times == 0


@pytest.mark.parametrize(
    "framed",
    [
        b"Content-Length: 3\r\n\r\nabc",
        b"Content-Length: 101\r\nExpect: 100-continue\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n",
        b"Connection: Upgrade\r\n" + OFFER + b"Content-Length: 3\r\n\r\nabc",
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_body_that_is_not_let_in_is_not_read_nor_anything_after_it(
    parser: Parser, taker: FakeTaker, framed: bytes, size: int
) -> None:
    taker.lets_all_in = False
    bare = b"GET /v1/models HTTP/1.1\r\n\r\n"
    data = bare + b"POST /v1/completions?x=1 HTTP/1.1\r\nX: y\r\n" + framed + bare
    head = data.index(b"\r\n\r\n", len(bare)) + 4
    for start in range(0, head, size):
        parser.feed(data[start : min(start + size, head)])
    told = [
        Asked("GET /v1/models", b""),
        Asked("POST /v1/completions?x=1", b"", keep_alive=False),
    ]
    assert taker.asked_for == told
    assert parser.is_over
    parser.feed(data[head:])
    parser.feed(bare)
    assert taker.asked_for == told
    assert taker.heads == ["POST /v1/completions?x=1"]
    assert (taker.expected_times, taker.refused_times, parser.refusal) == (0, 0, None)
    assert taker.headers[1]["x"] == "y"


def test_nothing_is_read_of_what_comes_in_one_piece_with_a_body_that_is_not_let_in(
    parser: Parser, taker: FakeTaker
) -> None:
    taker.lets_all_in = False
    parser.feed((post(b"X: first", body=b"abc") + post(b"X: second", body=b"abc")) * 2)
    assert taker.asked_for == [Asked("POST /v1/completions", b"", keep_alive=False)]
    assert taker.headers[0]["x"] == "first"
    assert len(taker.heads) == 1


@pytest.mark.parametrize(
    "begun",
    [
        b"GET / HTTP/1.1\r\nX: ",
        b"GET / HTTP/1.1\r\nX",
        CHUNKED[: CHUNKED.index(b": t\r\n")],
        post(body=b"abc") + b"GET / HTTP/1.1\r\nX: ",
    ],
)
def test_a_line_without_an_end_is_not_read_for_ever(
    parser: Parser, taker: FakeTaker, begun: bytes
) -> None:
    parser.feed(begun)
    read = 0
    while parser.refusal is None:
        parser.feed(b"x" * 1000)
        read += 1000
        assert read < 2 * LARGEST_HEAD
    assert read >= LARGEST_HEAD
    assert parser.refusal.status == 431
    assert taker.refused_times == 1


def test_a_large_body_in_large_pieces_is_no_head() -> None:
    taker, body = FakeTaker(), b"x" * 5 * LARGEST_HEAD
    parser = Parser(taker, len(body))
    asked = post(body=body)
    for start in range(0, len(asked), LARGEST_HEAD * 2):
        parser.feed(asked[start : start + LARGEST_HEAD * 2])
    assert [each.body for each in taker.asked_for] == [body]
