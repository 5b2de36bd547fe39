"""Draining through gateways that answer well or badly, on real sockets."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet.backend import Backend
from remediator import drain
from remediator.drain import Drained, Gateways
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
from tests.remediator.fakes import Stuck
from tests.remediator.making import backend

TOKEN = "a-very-secret-token"
# Well before a handler that hangs or drips would end.
SOON = 20.0


@dataclass
class TinyGateway:
    """A gateway with ``streams`` at gpu-a, of which one goes with each look once it drains."""

    streams: int = 0
    state: str = "up"
    goes: int = 1
    obeys: bool = True
    asked: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> bytes:
        self.asked.append(f"{request.method} {request.path}")
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return reply("", "401 Unauthorized")
        _, _, rest = request.path.partition("/admin/backends/")
        name, _, order = rest.partition("/")
        if name != "gpu-a":
            return reply("", "404 Not Found")
        if order == "drain" and self.obeys:
            self.state = "draining"
        elif order == "undrain" and self.obeys:
            self.state = "up"
        elif not order:
            self.streams = max(0, self.streams - self.goes)
        status = "202 Accepted" if order == "drain" else "200 OK"
        return reply(self.body(), status)

    def body(self, **changed: object) -> str:
        fields = {"backend": "gpu-a", "state": self.state, "in_flight": self.streams}
        return json.dumps(fields | changed)


@pytest.fixture
def gateway() -> TinyGateway:
    return TinyGateway()


@pytest.fixture
def url(gateway: TinyGateway) -> Iterator[str]:
    with Listener(serving(gateway.answer)) as listener:
        yield listener.url


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "LOOK_EVERY_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def _no_log_shows_the_token(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    assert TOKEN not in caplog.text


def at(*urls: str) -> Backend:
    return backend(gateways=urls)


def test_the_streams_are_waited_for(gateway: TinyGateway, url: str, token_file: Path) -> None:
    gateway.streams = 3
    told: list[int | None] = []
    drained = Gateways(token_file, 30.0).drain(
        at(url), lambda in_flight: told.append(in_flight[url])
    )
    assert drained == Drained(ok=True, why="no stream is left there", left=0)
    assert told == [3, 2, 1, 0]
    look = "GET /admin/backends/gpu-a"
    assert gateway.asked == ["POST /admin/backends/gpu-a/drain", look, look, look]


def test_without_streams_nothing_is_waited_for(
    gateway: TinyGateway, url: str, token_file: Path
) -> None:
    assert Gateways(token_file, 30.0).drain(at(url)).ok
    assert gateway.asked == ["POST /admin/backends/gpu-a/drain"]


def test_afterwards_requests_are_sent_there_again(
    gateway: TinyGateway, url: str, token_file: Path
) -> None:
    gateways = Gateways(token_file, 30.0)
    gateways.drain(at(url))
    assert gateway.state == "draining"
    undrained = gateways.undrain(at(url))
    assert undrained == Drained(ok=True, why="requests are sent there again", left=0)
    assert gateway.state == "up"


def test_a_gateway_that_does_not_undrain_is_told(
    gateway: TinyGateway, url: str, token_file: Path
) -> None:
    gateway.state, gateway.obeys = "drained", False
    undrained = Gateways(token_file, 30.0).undrain(at(url))
    assert undrained == Drained(ok=False, why=f"{url}: it is drained all the same", left=0)


def test_without_gateways_there_is_nothing_to_do() -> None:
    drained = Drained(ok=True, why="gpu-a has no gateways", left=0)
    assert Gateways(None, 30.0).drain(at()) == drained
    assert Gateways(None, 30.0).undrain(at()) == drained


def test_streams_that_stay_are_told_when_the_time_is_up(
    gateway: TinyGateway, url: str, token_file: Path
) -> None:
    gateway.streams, gateway.goes = 3, 0
    began = time.monotonic()
    drained = Gateways(token_file, 0.5).drain(at(url))
    assert time.monotonic() - began < SOON
    assert drained == Drained(ok=False, why=f"{url}: 3 streams are left after 0.5 s", left=3)


def test_somebody_who_undrains_meanwhile_is_not_waited_for(
    gateway: TinyGateway, url: str, token_file: Path
) -> None:
    gateway.streams, gateway.obeys = 3, False
    drained = Gateways(token_file, 30.0).drain(at(url))
    assert drained.why == f"{url}: it sends requests there all the same"
    assert drained.left == 3


def test_two_gateways_are_asked_at_once_and_a_dead_one_hides_nothing(
    gateway: TinyGateway, url: str, token_file: Path
) -> None:
    gateway.streams = 2
    with closed_port() as port:
        dead = f"http://127.0.0.1:{port}"
        drained = Gateways(token_file, 30.0).drain(at(dead, url))
    assert not drained.ok
    assert drained.why == f"{dead}: the connection was refused"
    assert drained.left is None
    assert gateway.streams == 0


def silent(connection: Connection) -> None:
    connection.wait_until_closed()


def dripping(connection: Connection) -> None:
    connection.request()
    connection.drip(reply("x" * 10_000))


def flooding(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


@pytest.mark.parametrize("handler", [silent, dripping])
@pytest.mark.parametrize("ask", [Gateways.drain, Gateways.undrain])
def test_a_gateway_that_hangs_or_drips_takes_no_longer_than_the_bound(
    token_file: Path, handler: Handler, ask: Callable[[Gateways, Backend], Drained]
) -> None:
    with Listener(handler) as listener:
        began = time.monotonic()
        drained = ask(Gateways(token_file, 0.5), at(listener.url))
        assert time.monotonic() - began < SOON
    assert drained == Drained(
        ok=False, why=f"{listener.url}: it did not answer within 0.5 s", left=None
    )


def test_a_gateway_that_drops_what_comes_takes_no_longer_than_the_bound(token_file: Path) -> None:
    with full_backlog() as (host, port):
        began = time.monotonic()
        drained = Gateways(token_file, 0.5).drain(at(f"http://{host}:{port}"))
        assert time.monotonic() - began < SOON
    assert drained.why.endswith("it did not answer within 0.5 s")


def test_a_slow_gateway_is_not_waited_for_as_long_as_its_streams_may_take(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "ANSWER_SECONDS", 0.2)
    with Listener(silent) as listener:
        began = time.monotonic()
        drained = Gateways(token_file, 60.0).drain(at(listener.url))
        assert time.monotonic() - began < SOON
    path = "/admin/backends/gpu-a/drain"
    assert drained.why == f"{listener.url}: {path} did not answer in full within 0.2 s"


def test_a_name_that_takes_long_to_resolve_holds_nobody(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No socket's timeout bounds this, and no resolver here hangs on demand.
    with Stuck() as resolver:
        monkeypatch.setattr("socket.getaddrinfo", resolver)
        drained = Gateways(token_file, 0.5).drain(at("http://gateway:8000"))
        assert not resolver.released.is_set()
    assert drained.why == "http://gateway:8000: it did not answer within 0.5 s"


GOOD = TinyGateway(state="draining")
ANSWERS = {
    "an error of its own": (
        reply("", "500 Internal Server Error"),
        "/admin/backends/gpu-a/drain answered HTTP 500",
    ),
    "an unknown backend": (reply("", "404 Not Found"), "it does not know gpu-a (HTTP 404)"),
    "a wrong token": (reply("", "401 Unauthorized"), "it does not accept our token (HTTP 401)"),
    "no JSON": (reply("<html>"), "its answer is not one of the gateway's admin API"),
    "deep JSON": (reply("[" * 100_000), "its answer is not one of the gateway's admin API"),
    "a list": (reply("[]"), "its answer is not one of the gateway's admin API"),
    "a null": (reply("null"), "its answer is not one of the gateway's admin API"),
    "a state that is none": (
        reply(GOOD.body(state="sunny")),
        "its answer is not one of the gateway's admin API",
    ),
    "a state that cannot be one": (
        reply(GOOD.body(state=[])),
        "its answer is not one of the gateway's admin API",
    ),
    "another backend": (
        reply(GOOD.body(backend="gpu-b")),
        "its answer is about another backend",
    ),
    "streams below none": (
        reply(GOOD.body(in_flight=-1)),
        "its answer has no number of streams in_flight",
    ),
    "a truth for a number": (
        reply(GOOD.body(in_flight=False)),
        "its answer has no number of streams in_flight",
    ),
}


@pytest.mark.parametrize(("answer", "why"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_counts_for_nothing_is_one_sentence(
    token_file: Path, answer: bytes, why: str
) -> None:
    with Listener(says(answer)) as listener:
        drained = Gateways(token_file, 30.0).drain(at(listener.url))
    assert drained == Drained(ok=False, why=f"{listener.url}: {why}", left=None)


def test_an_endless_answer_is_not_read_to_its_end(token_file: Path) -> None:
    with Listener(flooding) as listener:
        drained = Gateways(token_file, 30.0).drain(at(listener.url))
    assert drained.why.endswith(" answered more than 8388608 bytes")


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
@pytest.mark.parametrize("same", [True, False], ids=["to itself", "elsewhere"])
def test_a_redirect_is_not_followed_with_the_token(
    token_file: Path, status: str, same: bool
) -> None:
    elsewhere: list[Request] = []
    asked: list[Request] = []

    def other(request: Request) -> bytes:
        elsewhere.append(request)
        return reply(GOOD.body())

    def redirecting(request: Request) -> bytes:
        asked.append(request)
        return reply("", status, Location="/there" if same else f"{away.url}/there")

    with Listener(serving(other)) as away, Listener(serving(redirecting)) as listener:
        drained = Gateways(token_file, 30.0).drain(at(listener.url))
    assert not drained.ok
    assert drained.why.endswith(" which is not followed")
    assert len(asked) == 1
    assert elsewhere == []


def test_what_the_environment_says_of_proxies_is_not_used(
    url: str, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closed_port() as port:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        assert Gateways(token_file, 30.0).drain(at(url)).ok


def test_the_token_is_read_anew_each_time(url: str, token_file: Path) -> None:
    gateways = Gateways(token_file, 30.0)
    token_file.write_text("an-old-token")
    drained = gateways.drain(at(url))
    assert drained.why == f"{url}: it does not accept our token (HTTP 401)"
    assert "an-old-token" not in str(drained)
    token_file.write_text(TOKEN)
    assert gateways.drain(at(url)).ok


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "gateway_token_file: {file}: cannot be read: No such file or directory"),
        (b" \n", "gateway_token_file: {file}: is empty"),
        (b"a\nb", "gateway_token_file: {file}: is not one line of ASCII text"),
        (b"\xff", "gateway_token_file: {file}: is not one line of ASCII text"),
    ],
)
def test_without_a_token_nobody_is_asked(
    gateway: TinyGateway, url: str, tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "none"
    if content is not None:
        file.write_bytes(content)
    drained = Gateways(file, 30.0).drain(at(url))
    assert drained.why == f"{url}: {why.format(file=file)}"
    assert gateway.asked == []


def test_a_gateway_that_stumbles_once_is_looked_at_again(
    gateway: TinyGateway, token_file: Path
) -> None:
    gateway.streams = 3
    looks: list[str] = []

    def stumbling(request: Request) -> bytes:
        looks.append(request.method)
        if len(looks) in {2, 3}:
            return reply("", "503 Service Unavailable")
        return gateway.answer(request)

    with Listener(serving(stumbling)) as listener:
        assert Gateways(token_file, 30.0).drain(at(listener.url)).ok


def test_a_gateway_that_dies_while_it_drains_is_not_waited_for(
    gateway: TinyGateway, token_file: Path
) -> None:
    gateway.streams, gateway.goes = 3, 0
    draining = threading.Event()

    def dying(connection: Connection) -> None:
        request = connection.request()
        assert request is not None
        connection.send(gateway.answer(request))
        listener.stop_listening()
        draining.set()

    with Listener(dying) as listener:
        drained = Gateways(token_file, 30.0).drain(at(listener.url))
    assert draining.is_set()
    assert drained.why == f"{listener.url}: while it drained: the connection was refused"
    assert drained.left is None
