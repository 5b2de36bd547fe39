"""One exchange with servers that behave badly: it ends in time, and says what it was."""

import contextlib
import gzip
import itertools
import logging
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3

from fleet.backend import Backend, Kind
from fleet.bounded import connection, deadline
from fleet.fetch import MAX_BYTES, Failure, Fetcher, Page, Trouble, _same_origin
from tests.fleet.listeners import (
    Connection,
    Handler,
    Listener,
    Request,
    closed_port,
    full_backlog,
    reply,
    says,
    serving,
)

# Deadlines are short, and what would outlast them goes on for much longer than SLACK.
TIMEOUT = 0.25
SLACK = 2.0


def backend(url: str, key_file: Path | None = None) -> Backend:
    return Backend("gpu-a", url, Kind.VLLM, 90.0, 600.0, api_key_file=key_file)


@contextlib.contextmanager
def fetching(url: str, key_file: Path | None = None) -> Iterator[Fetcher]:
    fetcher = Fetcher(backend(url, key_file), "test")
    try:
        yield fetcher
    finally:
        fetcher.close()


def get(url: str, timeout: float = 5.0, key_file: Path | None = None) -> Page | Failure:
    with fetching(url, key_file) as fetcher:
        return fetcher.get("/metrics", timeout=timeout)


def failure(handler: Handler, timeout: float = 5.0) -> Failure:
    with Listener(handler) as server:
        got = get(server.url, timeout)
    assert isinstance(got, Failure)
    return got


def silence(connection: Connection) -> None:
    connection.wait_until_closed()


def drip_header(connection: Connection) -> None:
    connection.drip(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100)


def drip_body(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    connection.drip(b"x" * 1000)


def drip_chunks(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.drip(b"1\r\nx\r\n" * 1000)


def drip_chunk_size(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.drip(b"0" * 1000)


def drip_trailers(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
    connection.drip(b"A: b\r\n" * 1000)


def drip_continues(connection: Connection) -> None:
    connection.request()
    connection.drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0.001)


def body_that_does_not_end(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
    connection.wait_until_closed()


@pytest.mark.parametrize(
    "handler",
    [
        silence,
        drip_header,
        drip_body,
        drip_chunks,
        drip_chunk_size,
        drip_trailers,
        drip_continues,
        body_that_does_not_end,
    ],
    ids=lambda handler: handler.__name__,
)
def test_the_whole_exchange_ends_at_its_deadline(handler: Handler) -> None:
    with Listener(handler) as server, fetching(server.url) as fetcher:
        began = time.monotonic()
        got = fetcher.get("/metrics", timeout=TIMEOUT)
        took = time.monotonic() - began
    assert got == Failure(Trouble.TIMEOUT, f"/metrics did not answer in full within {TIMEOUT} s")
    assert TIMEOUT * 0.9 < took < TIMEOUT + SLACK


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x03\x40\x00" + b"\x02" * 1000])
def test_a_tls_handshake_ends_at_the_deadline_too(data: bytes) -> None:
    def handshake(connection: Connection) -> None:
        connection.drip(data)
        connection.wait_until_closed()

    with Listener(handshake, scheme="https") as server, fetching(server.url) as fetcher:
        began = time.monotonic()
        got = fetcher.get("/metrics", timeout=TIMEOUT)
        took = time.monotonic() - began
    assert isinstance(got, Failure)
    assert got.kind is Trouble.TIMEOUT
    assert took < TIMEOUT + SLACK


def test_a_connection_that_is_not_accepted_ends_at_the_deadline() -> None:
    with full_backlog() as (host, port), fetching(f"http://{host}:{port}") as fetcher:
        began = time.monotonic()
        got = fetcher.get("/metrics", timeout=TIMEOUT)
        took = time.monotonic() - began
    assert isinstance(got, Failure)
    assert got.kind is Trouble.TIMEOUT
    assert took < TIMEOUT + SLACK


def addresses(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, int]) -> None:
    """Let the host name ``several.test`` have these addresses."""

    def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        assert host == "several.test"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_a_host_of_many_addresses_has_no_more_time_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with full_backlog() as address:
        addresses(monkeypatch, *[address] * 20)
        began = time.monotonic()
        got = get("http://several.test", TIMEOUT)
        took = time.monotonic() - began
    assert isinstance(got, Failure)
    assert got.kind is Trouble.TIMEOUT
    assert took < TIMEOUT + SLACK


def test_an_address_that_is_dead_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        full_backlog() as dead,
        closed_port() as closed,
        Listener(says(reply("x 1"))) as server,
    ):
        addresses(monkeypatch, dead, ("127.0.0.1", closed), ("127.0.0.1", server.port))
        got = get("http://several.test", 2.0)
    assert isinstance(got, Page)
    assert got.text == "x 1"


def test_a_host_without_an_address_does_not_resolve() -> None:
    got = get("http://nowhere.invalid:80")
    assert got == Failure(Trouble.UNREACHABLE, "the host name does not resolve")


def test_a_host_name_that_is_none_is_unreachable() -> None:
    got = get(f"http://{'a' * 70}.test:80")
    assert isinstance(got, Failure)
    assert got.kind is Trouble.UNREACHABLE


def test_a_closed_port_is_refused() -> None:
    with closed_port() as port:
        got = get(f"http://127.0.0.1:{port}")
    assert got == Failure(Trouble.REFUSED, "the connection was refused")


def reset_in_mid_body(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
    connection.reset()


LOST = {
    "a reset in mid body": reset_in_mid_body,
    "an end in mid body": says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
    "an end in mid header": says(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "an end after the header": says(b"HTTP/1.1 200 OK\r\n\r\n"),
    "half a chunk": says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nabc"),
    "half a chunked body": says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    ),
    "a chunk size that is none": says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"
    ),
    "a chunk size without an end": says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 200_000
    ),
    "no HTTP at all": says(b"\x15\x03\x03\x00\x02\x02\x50"),
    "a header without an end": says(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000),
    "ten thousand headers": says(b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 10_000),
}


@pytest.mark.parametrize("handler", LOST.values(), ids=LOST)
def test_an_answer_that_breaks_off_is_no_page(handler: Handler) -> None:
    assert failure(handler) == Failure(
        Trouble.RESET, "the connection was lost while /metrics was read"
    )


def test_tls_to_a_plain_port_is_unreachable() -> None:
    def plain(connection: Connection) -> None:
        connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.wait_until_closed()

    with Listener(plain, scheme="https") as server:
        got = get(server.url)
    assert got == Failure(Trouble.UNREACHABLE, "the TLS connection could not be made")


def flood(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in itertools.count():
        connection.send(b"x" * 65536)


def chunked_flood(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in itertools.count():
        connection.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def one_huge_chunk(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n")
    for _ in itertools.count():
        connection.send(b"x" * 65536)


@pytest.mark.parametrize(
    "handler", [flood, chunked_flood, one_huge_chunk], ids=lambda handler: handler.__name__
)
def test_a_flood_is_cut_off(handler: Handler) -> None:
    assert failure(handler, 20.0) == Failure(
        Trouble.UNREADABLE, f"/metrics answered more than {MAX_BYTES} bytes"
    )


def test_a_page_of_exactly_the_limit_is_read() -> None:
    with Listener(says(reply(b"x" * MAX_BYTES))) as server:
        got = get(server.url, 20.0)
    assert isinstance(got, Page)
    assert len(got.text) == MAX_BYTES


def test_a_page_and_how_long_it_took() -> None:
    with Listener(says(reply("héllo \ufffd".encode() + b"\xff"))) as server:
        got = get(server.url)
    assert isinstance(got, Page)
    assert got.text == "héllo \ufffd\ufffd"
    assert 0 < got.seconds < 5


def test_a_compressed_page_is_refused_though_it_would_be_small() -> None:
    bomb = gzip.compress(b"x" * MAX_BYTES * 2)
    assert failure(says(reply(bomb, Content_Encoding="gzip"))) == Failure(
        Trouble.UNREADABLE,
        "/metrics answered HTTP 200 compressed, though plain was asked for",
        200,
    )


def test_a_plain_page_may_say_that_it_is_plain() -> None:
    with Listener(says(reply("x", Content_Encoding="identity"))) as server:
        assert isinstance(get(server.url), Page)


def test_an_ipv6_literal_is_reached() -> None:
    try:
        server = Listener(says(reply("x")), host="::1")
    except OSError:
        pytest.fail("this machine has no IPv6 loopback: sysctl net.ipv6.conf.lo.disable_ipv6=0")
    with server:
        assert isinstance(get(server.url), Page)


STATUSES = [
    (401, Trouble.UNAUTHORISED, ": the server wants an API key that it accepts (api_key_file)"),
    (403, Trouble.UNAUTHORISED, ": the server wants an API key that it accepts (api_key_file)"),
    (404, Trouble.NOT_FOUND, ": there is no such page"),
    (405, Trouble.NOT_FOUND, ": there is no such page"),
    (400, Trouble.HTTP_ERROR, ""),
    (429, Trouble.HTTP_ERROR, ""),
    (500, Trouble.HTTP_ERROR, ""),
    (503, Trouble.HTTP_ERROR, ""),
]


@pytest.mark.parametrize(("status", "kind", "why"), STATUSES)
def test_each_status_has_its_kind(status: int, kind: Trouble, why: str) -> None:
    with Listener(says(reply("never read", f"{status} Whatever"))) as server:
        got = get(server.url)
    assert got == Failure(kind, f"/metrics answered HTTP {status}{why}", status)


@pytest.mark.parametrize("length", [b"content-length: 0", b"Content-Length: 0"])
def test_an_empty_page_is_a_page(length: bytes) -> None:
    with Listener(says(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n")) as server:
        got = get(server.url)
    assert isinstance(got, Page)
    assert got.text == ""


def test_an_answer_without_content_is_an_empty_page() -> None:
    with Listener(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        got = get(server.url)
    assert isinstance(got, Page)
    assert got.text == ""


class Redirecting:
    """Redirects all but ``/there`` to what it is told."""

    def __init__(self, location: str, status: str = "307 Temporary Redirect") -> None:
        self.location = location
        self.status = status
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> bytes:
        self.requests.append(request)
        if request.path == "/there":
            return reply("there")
        return reply("moved", self.status, Location=self.location)


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"]
)
def test_a_redirect_within_the_server_is_followed_with_the_key(status: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret")
    redirecting = Redirecting("/there", status)
    with Listener(serving(redirecting)) as server:
        got = get(server.url, key_file=tmp_path / "key")
    assert isinstance(got, Page)
    assert got.text == "there"
    assert [request.path for request in redirecting.requests] == ["/metrics", "/there"]
    assert {request.headers["authorization"] for request in redirecting.requests} == {
        "Bearer s3cret"
    }


def test_a_redirect_to_the_full_address_of_the_same_server_is_followed() -> None:
    redirecting = Redirecting("")
    with Listener(serving(redirecting)) as server:
        redirecting.location = f"{server.url}/there"
        assert isinstance(get(server.url), Page)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("http://H:80/metrics/", "http://H:80/metrics/"),
        ("/there", "http://h/there"),
        ("http://h:81/metrics", None),
        ("https://h/metrics", None),
        ("http://other/metrics", None),
    ],
)
def test_the_same_server_is_the_same_scheme_host_and_port(
    location: str, target: str | None
) -> None:
    assert _same_origin("http://h/metrics", location) == target


def test_a_redirect_in_a_circle_is_followed_once() -> None:
    redirecting = Redirecting("/metrics")
    with Listener(serving(redirecting)) as server:
        got = get(server.url)
    assert got == Failure(
        Trouble.REDIRECTED,
        "/metrics answered HTTP 307: a redirect to itself, which is not followed",
        307,
    )
    assert len(redirecting.requests) == 2


def test_the_key_follows_no_redirect_to_another_server(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret")
    other = Redirecting("")
    with Listener(serving(other)) as elsewhere:
        # Another port of the same host is another server; so are another name and scheme of it.
        places = (
            elsewhere.url,
            elsewhere.url.replace("127.0.0.1", "localhost"),
            elsewhere.url.replace("http", "https"),
            f"//127.0.0.1:{elsewhere.port}",
        )
        for place in places:
            with Listener(serving(Redirecting(f"{place}/there"))) as server:
                got = get(server.url, key_file=tmp_path / "key")
            assert isinstance(got, Failure)
            assert got.kind is Trouble.REDIRECTED
            assert "which is not followed" in got.why
    assert other.requests == []
    assert elsewhere.connections == 0


@pytest.mark.parametrize(
    "location", ["http://[::1", "http://h:99999999/", "http://[x]/", "\\\\h", "http://h:x/", ""]
)
def test_a_redirect_to_nonsense_is_a_redirect(location: str) -> None:
    got = failure(says(reply("", "302 Found", Location=location)))
    assert got.kind is Trouble.REDIRECTED
    assert got.status == 302


def test_the_body_of_a_redirect_is_never_read() -> None:
    def flooding(connection: Connection) -> None:
        connection.request()
        connection.send(b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n")
        for _ in range(1000):
            connection.send(b"x" * 65536)
        sent_in_full.append(connection)

    sent_in_full: list[Connection] = []
    assert failure(flooding, 20.0).kind is Trouble.REDIRECTED
    assert sent_in_full == []


def test_a_redirect_without_a_place_is_a_redirect() -> None:
    got = failure(says(reply("", "302 Found")))
    assert got.why == "/metrics answered HTTP 302: a redirect to itself, which is not followed"


# A server closes what it has kept alive long enough. That is never the server's trouble.


def test_connections_are_kept_alive() -> None:
    with Listener(serving(lambda _: reply("x"))) as server, fetching(server.url) as fetcher:
        for _ in range(5):
            assert isinstance(fetcher.get("/metrics", timeout=5.0), Page)
        assert server.connections == 1


def test_a_kept_connection_closed_between_two_polls_shows_no_failure() -> None:
    with Listener(serving(lambda _: reply("x"))) as server, fetching(server.url) as fetcher:
        for polls in range(1, 4):
            assert isinstance(fetcher.get("/metrics", timeout=5.0), Page)
            assert server.connections == polls
            server.close_connections()


def close_at_the_second(end: Callable[[Connection], None]) -> Handler:
    def handler(connection: Connection) -> None:
        connection.request()
        connection.send(reply("x"))
        if connection.request() is not None:
            end(connection)

    return handler


@pytest.mark.parametrize("end", [lambda _: None, Connection.reset], ids=["closed", "reset"])
def test_a_kept_connection_closed_in_the_moment_of_use_shows_no_failure(
    end: Callable[[Connection], None],
) -> None:
    with Listener(close_at_the_second(end)) as server, fetching(server.url) as fetcher:
        for polls in range(1, 5):
            assert isinstance(fetcher.get("/metrics", timeout=5.0), Page)
            assert server.connections == polls


def hang_up(connection: Connection) -> None:
    connection.request()


def test_a_server_that_always_closes_is_lost_after_one_more_try() -> None:
    with Listener(hang_up) as server:
        got = get(server.url)
        assert got == Failure(Trouble.RESET, "the connection was lost while /metrics was read")
        assert server.connections == 2


def test_a_server_that_went_away_in_the_moment_of_use_is_refused() -> None:
    servers: list[Listener] = []
    handler = close_at_the_second(lambda _: servers[0].stop_listening())
    with Listener(handler) as server, fetching(server.url) as fetcher:
        servers.append(server)
        assert isinstance(fetcher.get("/metrics", timeout=5.0), Page)
        got = fetcher.get("/metrics", timeout=5.0)
    assert got == Failure(Trouble.REFUSED, "the connection was refused")


def test_both_tries_together_have_one_deadline() -> None:
    def slow_end(connection: Connection) -> None:
        connection.request()
        time.sleep(TIMEOUT * 0.75)

    with Listener(slow_end) as server, fetching(server.url) as fetcher:
        began = time.monotonic()
        got = fetcher.get("/metrics", timeout=TIMEOUT)
        took = time.monotonic() - began
        assert server.connections == 2
    assert isinstance(got, Failure)
    assert got.kind is Trouble.TIMEOUT
    assert took < TIMEOUT + SLACK


def test_a_post_is_never_sent_twice() -> None:
    def counting(connection: Connection) -> None:
        if connection.request() is not None:
            posts.append(1)

    posts: list[int] = []
    with Listener(counting) as server, fetching(server.url) as fetcher:
        got = fetcher.post("/v1/completions", {"a": 1}, {}, timeout=5.0)
    assert isinstance(got, Failure)
    assert got.kind is Trouble.RESET
    assert posts == [1]


def test_a_post_carries_its_body_and_headers() -> None:
    seen: list[Request] = []

    def answer(request: Request) -> bytes:
        seen.append(request)
        return reply("{}")

    with Listener(serving(answer)) as server, fetching(server.url) as fetcher:
        fetcher.post("/v1/completions", {"a": 1}, {"X-data-parallel-rank": "1"}, timeout=5.0)
    (request,) = seen
    assert (request.method, request.path, request.body) == ("POST", "/v1/completions", b'{"a": 1}')
    assert request.headers["x-data-parallel-rank"] == "1"


def test_a_request_the_server_does_not_read_ends_at_the_deadline() -> None:
    def unread(connection: Connection) -> None:
        connection._closing.wait(30.0)

    with Listener(unread) as server, fetching(server.url) as fetcher:
        began = time.monotonic()
        got = fetcher.post("/x", {"a": "x" * 30_000_000}, {}, timeout=TIMEOUT)
        took = time.monotonic() - began
    assert isinstance(got, Failure)
    assert got.kind is Trouble.TIMEOUT
    assert took < TIMEOUT + SLACK


# Who asks, and with what.


def headers_seen(url_of: Callable[[Listener], str], key_file: Path | None = None) -> dict[str, str]:
    seen: list[Request] = []

    def answer(request: Request) -> bytes:
        seen.append(request)
        return reply("x")

    with Listener(serving(answer)) as server:
        assert isinstance(get(url_of(server), key_file=key_file), Page)
    return seen[0].headers


def test_the_request_says_who_asks_and_wants_no_compression() -> None:
    headers = headers_seen(lambda server: server.url)
    assert headers["user-agent"].startswith("vllm-lifeguard/")
    assert headers["user-agent"].endswith(" (test)")
    assert headers["accept-encoding"] == "identity"
    assert "authorization" not in headers


def test_proxies_and_netrc_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login u password p\ndefault login u password p\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    with closed_port() as port:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        headers = headers_seen(lambda server: server.url)
    assert "authorization" not in headers


@pytest.mark.parametrize("written", ["s3cret", "s3cret\n", "  s3cret \r\n"])
def test_a_key_is_sent_without_the_line_break_of_its_file(written: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(written.encode())
    headers = headers_seen(lambda server: server.url, tmp_path / "key")
    assert headers["authorization"] == "Bearer s3cret"


def test_a_key_is_read_anew_for_each_request(tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(request: Request) -> bytes:
        seen.append(request.headers["authorization"])
        return reply("x")

    key = tmp_path / "key"
    with Listener(serving(answer)) as server, fetching(server.url, key) as fetcher:
        for text in ("one", "two"):
            key.write_text(text)
            fetcher.get("/metrics", timeout=5.0)
    assert seen == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff\xfe", "is not one line of ASCII text"),
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        ("schlüssel".encode(), "is not one line of ASCII text"),
        ("\u4f60".encode(), "is not one line of ASCII text"),
        (b"one\ntwo", "is not one line of ASCII text"),
        (b"one\r\nX-Evil: 1", "is not one line of ASCII text"),
        (b"one\x00two", "is not one line of ASCII text"),
    ],
)
def test_a_key_that_cannot_be_sent_is_a_mistake_of_ours(
    content: bytes | None, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with Listener(serving(lambda _: reply("x"))) as server:
        got = get(server.url, key_file=file)
        assert server.connections == 0
    assert got == Failure(Trouble.NO_KEY, f"api_key_file: {file}: {why}")


def test_the_key_is_in_no_failure_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "s3cret-s3cret"
    (tmp_path / "key").write_text(key)
    caplog.set_level(logging.DEBUG)
    echo = serving(lambda request: reply("", "500 X", X_Echo=request.headers["authorization"]))
    handlers = [*LOST.values(), echo, silence, says(reply("", "401 Unauthorized")), flood]
    said = []
    for handler in handlers:
        with Listener(handler) as server:
            said.append(repr(get(server.url, TIMEOUT, tmp_path / "key")))
    assert key not in caplog.text + "".join(said)
    assert all("Failure" in text for text in said)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(file)]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(file) + ".crt"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.fail("install the package openssl")
    file.write_text(file.read_text() + Path(str(file) + ".crt").read_text())
    return file


def over_tls(certificate: Path, handler: Handler) -> Handler:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def wrapped(connection: Connection) -> None:
        with context.wrap_socket(connection._sock.dup(), server_side=True) as tls:
            handler(Connection(tls, connection._closing))

    return wrapped


def test_a_page_is_read_over_tls_and_a_drip_over_tls_ends_at_its_deadline(
    certificate: Path,
) -> None:
    page = over_tls(certificate, serving(lambda _: reply("x 1")))
    with (
        Listener(page, scheme="https") as server,
        contextlib.closing(connection(server.url, f"{certificate}.crt")) as to_it,
    ):
        for _ in range(2):
            deadline.at = time.monotonic() + 5.0
            to_it.request("GET", "/")
            assert to_it.getresponse().data == b"x 1"
        assert server.connections == 1
    with (
        Listener(over_tls(certificate, drip_body), scheme="https") as server,
        contextlib.closing(connection(server.url, f"{certificate}.crt")) as to_it,
    ):
        began = time.monotonic()
        deadline.at = began + TIMEOUT
        to_it.request("GET", "/")
        with pytest.raises(urllib3.exceptions.HTTPError):
            _ = to_it.getresponse().data
        assert time.monotonic() - began < TIMEOUT + SLACK


def test_a_certificate_nobody_signed_is_unreachable(certificate: Path) -> None:
    def ssl_page(connection: Connection) -> None:
        with contextlib.suppress(ssl.SSLError):
            over_tls(certificate, serving(lambda _: reply("x")))(connection)

    with Listener(ssl_page, scheme="https") as server:
        got = get(server.url)
    assert got == Failure(Trouble.UNREACHABLE, "the TLS connection could not be made")
