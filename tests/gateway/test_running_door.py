"""The running gateway's door: what of a request is taken in, by which path, and what is not."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.gateway.hearing import CHAT, COMPLETIONS, question
from tests.gateway.hostile import Hostile, answer
from tests.gateway.playing import Got
from tests.gateway.running import SECONDS, Gateway, Simulated
from tests.gateway.test_running_clients import all_of, raw, request

CLOSE = "connection: close"


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
