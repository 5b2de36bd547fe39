"""The running gateway's door: what of a request is taken in, by which path, and what is not."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from gateway.keys import line
from tests.gateway.hearing import CHAT, COMPLETIONS, question
from tests.gateway.hostile import Hostile, answer
from tests.gateway.playing import Got
from tests.gateway.running import SECONDS, Gateway, Simulated
from tests.gateway.test_running_clients import all_of, raw, request

CLOSE = "connection: close"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    folder = tmp_path_factory.mktemp("backend")
    with Simulated(folder, "gpu-a", steps_per_second=100.0) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, backend: Simulated) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), {"gpu-a": backend.url}) as gateway:
        yield gateway


@pytest.mark.parametrize(
    "target",
    [
        "/v1/%63ompletions",
        "/%76%31/completions",
        "/v1%2fcompletions",
        "/v1/completions%0a",
        "/v1/completions/?x=1",
        "//v1/completions",
        "/v1/../v1/./completions",
        "http://host//v1/completions",
    ],
)
def test_a_path_that_a_server_reads_as_a_billed_one_is_refused(
    gateway: Gateway, backend: Simulated, target: str
) -> None:
    body = json.dumps(question(COMPLETIONS, 2)).encode()
    before, rows = backend.state()["requests"], len(gateway.ledger())
    with raw(gateway) as connection:
        connection.sendall(request(target, body, "POST", CLOSE))
        head, _, said = all_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    message = json.loads(said)["error"]["message"]
    assert message.startswith("the path must be /v1/completions: ")
    asked = {one["path"] for one in backend.state()["requests"]} - {one["path"] for one in before}
    assert not asked
    assert len(gateway.ledger()) == rows


@pytest.mark.parametrize("target", [f"http://host:1{CHAT}", f"{CHAT}#part", f"{CHAT}?x=%2f"])
def test_the_path_itself_is_billed_however_the_rest_is_written(
    gateway: Gateway, target: str
) -> None:
    name = f"named-{len(target)}"
    body = json.dumps(question(CHAT, 2) | {"stream": False}).encode()
    with raw(gateway) as connection:
        connection.sendall(request(target, body, "POST", f"x-request-id: {name}", CLOSE))
        assert all_of(connection).startswith(b"HTTP/1.1 200 OK")
    assert gateway.billed(name, "complete").completion_tokens == 2


def test_a_redirect_of_a_server_leads_back_here_and_tells_nothing_of_where_it_is(
    tmp_path: Path,
) -> None:
    def play(connection: socket.socket, got: Got) -> None:
        if got.line.startswith("POST /tokenize/ "):
            there = f"location: http://{got.headers['host']}/tokenize?x=1"
            answer(connection, 307, b"", there)
        else:
            answer(connection, 200, got.line.encode())

    with Hostile(play) as server, Gateway(tmp_path, {"gpu-a": server.url}) as gateway:
        answered = requests.post(f"{gateway.url}/tokenize/", data=b"{}", timeout=SECONDS)
        (redirect,) = answered.history
        assert redirect.headers["location"] == "/tokenize?x=1"
        assert answered.url == f"{gateway.url}/tokenize?x=1"
        assert answered.text == "POST /tokenize?x=1 HTTP/1.1"
        assert server.url.rpartition(":")[2] not in str(redirect.headers)


def test_what_a_client_says_of_its_connection_stays_here(tmp_path: Path) -> None:
    def play(connection: socket.socket, got: Got) -> None:
        answer(connection, 200, json.dumps(dict(got.headers)).encode(), "x-hop: 1", "x-end: 2")

    with (
        Hostile(play) as server,
        Gateway(tmp_path, {"gpu-a": server.url}) as gateway,
        raw(gateway) as connection,
    ):
        said = ("connection: X-Mine , close", "connection: X-More", "x-mine: 1", "x-more: 2")
        connection.sendall(request("/any", b"", "GET", *said, "x-all: 3"))
        found = json.loads(all_of(connection).partition(b"\r\n\r\n")[2])
    assert found["x-all"] == "3"
    assert not found.keys() & {"x-mine", "x-more"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, backend: Simulated) -> Iterator[Gateway]:
    """A gateway that asks for keys."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(line("alice", "key-a"))
    with Gateway(
        folder, {"gpu-a": backend.url}, keys_file="keys", cors_origins=["https://a.example"]
    ) as gateway:
        yield gateway


@pytest.mark.parametrize(
    "said",
    [
        ("content-length: 10000000",),
        ("content-length: 10000000", "expect: 100-continue"),
        ("content-length: 10000000", "authorization: Bearer other"),
        ("content-length: 100000000000",),
        ("transfer-encoding: chunked",),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/any", "/admin/backends/gpu-a/drain"])
def test_who_has_no_key_is_told_so_before_the_body_comes(
    locked: Gateway, path: str, said: tuple[str, ...]
) -> None:
    with raw(locked) as connection:
        connection.sendall(request(path, b"", "POST", *said, "origin: https://a.example"))
        head = all_of(connection).lower()
    assert head.startswith(b"http/1.1 401 ")
    assert b"\r\nconnection: close\r\n" in head
    assert b"\r\naccess-control-allow-origin: https://a.example\r\n" in head
    assert head.count(b"http/1.1 ") == 1


def test_who_sends_a_body_all_the_same_can_read_why_it_is_refused(locked: Gateway) -> None:
    before = locked.memory
    for _ in range(3):
        answered = locked.post(CHAT, b" " * 15 * MIB)
        assert answered.status_code == 401
        assert answered.json()["error"]["type"] == "authentication_error"
    assert locked.memory - before < 10 * MIB


def test_who_has_a_key_is_let_in(locked: Gateway) -> None:
    body = json.dumps(question(CHAT, 2) | {"stream": False}).encode()
    key = "authorization: Bearer key-a"
    with raw(locked) as connection:
        connection.sendall(request(CHAT, body, "POST", key))
        connection.sendall(request("/-/healthy", b"", "GET"))
        connection.sendall(request(CHAT, b"", "GET"))  # nobody has to close for want of a key
        connection.sendall(request("/-/healthy", b"", "GET", CLOSE))
        found = all_of(connection)
    assert [part[:3] for part in found.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"401", b"200"]
    assert locked.admin("backends/gpu-a/undrain", "POST")["state"] == "up"


def test_what_is_refused_before_it_is_a_request_is_counted(gateway: Gateway) -> None:
    def counted(status: int) -> bool:
        page = requests.get(f"{gateway.url}/metrics", timeout=SECONDS).text
        return f'gateway_refused_total{{status="{status}"}} 1.0\n' in page

    assert not counted(413)
    assert not counted(431)
    assert gateway.post(CHAT, b" " * 17 * MIB).status_code == 413
    with raw(gateway) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 400_000)
        assert all_of(connection).startswith(b"HTTP/1.1 431 ")
    assert counted(413)
    assert counted(431)
