"""The running gateway's door: what of a request is taken in, by which path, and what is not."""

import json
from collections.abc import Iterator

import pytest

from tests.gateway.hearing import CHAT, COMPLETIONS, question
from tests.gateway.running import Gateway, Simulated
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
