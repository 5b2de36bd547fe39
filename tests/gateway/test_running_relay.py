"""The running gateway when all is well, and when a request cannot be answered."""

import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import requests

from demo.child import free_ports
from tests.gateway.hearing import CHAT, COMPLETIONS, hear, listening, prompt_length, question, text
from tests.gateway.hostile import Hostile, answer
from tests.gateway.official import streamed
from tests.gateway.playing import Got
from tests.gateway.recorded import comparable
from tests.gateway.running import SECONDS, SLOWLY, Gateway, Simulated, eventually

BOTH = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
LARGEST = 20_000
STEPS = 200.0
USAGE: dict[str, object] = {"stream_options": {"include_usage": True}}
CONTINUOUS: dict[str, object] = {
    "stream_options": {"include_usage": True, "continuous_usage_stats": True}
}
WISHES: dict[str, dict[str, object]] = {
    "nothing more": {},
    "usage": USAGE,
    "usage on each frame": CONTINUOUS,
    "token ids": {"return_token_ids": True},
    "all": {**CONTINUOUS, "return_token_ids": True},
}


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("backend"), "gpu-a", steps_per_second=STEPS) as server:
        yield server


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    folder = tmp_path_factory.mktemp("other")
    with Simulated(folder, "gpu-b", model="large", steps_per_second=STEPS) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, backend: Simulated, other: Simulated
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    backends = {"gpu-a": backend.url, "gpu-b": other.url}
    with Gateway(folder, backends, largest_body=LARGEST) as gateway:
        yield gateway


@BOTH
@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_the_bytes_are_those_of_the_backend_but_for_the_numbers(
    gateway: Gateway, backend: Simulated, path: str, wish: dict[str, object]
) -> None:
    body = question(path) | wish
    ours, theirs = hear(gateway.url, path, body), hear(backend.url, path, body)
    assert comparable(ours.raw) == comparable(theirs.raw)
    assert ours.numbers == list(range(1, len(ours.numbers) + 1))
    assert ours.headers["content-type"] == theirs.headers["content-type"]


@BOTH
def test_without_a_stream_the_answer_is_the_backends(
    gateway: Gateway, backend: Simulated, path: str
) -> None:
    body = question(path) | {"stream": False}
    ours = gateway.post(path, body)
    theirs = requests.post(backend.url + path, json=body, timeout=SECONDS)
    choices = [one.json()["choices"][0] for one in (ours, theirs)]
    if path == CHAT:
        choices = [one | one["message"] for one in choices]
    for name in ("content", "text", "finish_reason", "stop_reason", "logprobs"):
        assert choices[0].get(name) == choices[1].get(name)
    usages = [one.json()["usage"] for one in (ours, theirs)]
    assert {name: usages[0][name] for name in usages[1]} == usages[1]
    row = gateway.billed(ours.headers["x-request-id"], "complete")
    assert (row.prompt_tokens, row.completion_tokens) == (prompt_length(path, body), 40)
    assert row.finish_reason == "length"


def test_embeddings_are_relayed_and_billed(gateway: Gateway, backend: Simulated) -> None:
    body = {"model": "tiny", "input": ["sea salt", "wind"]}
    ours = gateway.post("/v1/embeddings", body)
    theirs = requests.post(f"{backend.url}/v1/embeddings", json=body, timeout=SECONDS)
    assert ours.status_code == 200
    assert ours.json()["data"] == theirs.json()["data"]
    row = gateway.billed(ours.headers["x-request-id"], "complete")
    assert row.prompt_tokens == ours.json()["usage"]["prompt_tokens"]
    assert row.completion_tokens == 0


def test_the_models_of_all_backends_are_listed_once(gateway: Gateway) -> None:
    listed = requests.get(f"{gateway.url}/v1/models", timeout=SECONDS).json()
    assert listed["object"] == "list"
    assert [card["id"] for card in listed["data"]] == ["tiny", "large"]
    large = question(COMPLETIONS) | {"model": "large"}
    heard = hear(gateway.url, COMPLETIONS, large)
    assert heard.text == text(COMPLETIONS, question(COMPLETIONS))


def test_other_paths_are_passed_through(gateway: Gateway) -> None:
    answered = requests.get(f"{gateway.url}/version?x=1", timeout=SECONDS)
    assert answered.status_code == 200
    assert answered.json() == {"version": "0.32.0"}
    assert requests.get(f"{gateway.url}/v2/none", timeout=SECONDS).status_code == 404
    assert requests.delete(f"{gateway.url}/version", timeout=SECONDS).status_code == 405


def test_head_is_answered_without_a_body(gateway: Gateway) -> None:
    with requests.Session() as kept:
        for path in ("/-/healthy", "/metrics", "/v1/models", "/v2/none", "/v2/none"):
            answered = kept.head(gateway.url + path, timeout=SECONDS)
            assert answered.status_code == (404 if path == "/v2/none" else 200)
            assert answered.content == b""
    eventually(lambda: gateway.in_flight() == [], "all are over")


def test_a_relayed_answer_has_one_framing(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS) as connection:
        connection.sendall(b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        said = b""
        while data := connection.recv(65536):
            said += data
    head = said.partition(b"\r\n\r\n")[0].lower()
    assert (b"content-length:" in head) != (b"transfer-encoding:" in head), head


def test_what_is_wrong_with_a_request_is_said_in_openais_shape(gateway: Gateway) -> None:
    wrong = {
        b"{": (400, "invalid_request_error"),
        b"[]": (400, "invalid_request_error"),
        json.dumps(question(CHAT) | {"model": "none"}).encode(): (404, "not_found_error"),
        json.dumps(question(CHAT) | {"n": "two"}).encode(): (400, "invalid_request_error"),
    }
    for body, (status, kind) in wrong.items():
        answered = gateway.post(CHAT, body)
        assert answered.status_code == status
        assert answered.json()["error"]["type"] == kind
        assert answered.json()["error"]["message"]


def test_what_the_backend_says_of_a_bad_request_comes_back(gateway: Gateway) -> None:
    answered = gateway.post(COMPLETIONS, {"model": "tiny", "prompt": "", "stream": True})
    assert answered.status_code == 400
    assert answered.json()["error"]["type"] == "BadRequestError"
    assert gateway.billed(answered.headers["x-request-id"], "refused").prompt_tokens is None


def test_a_body_that_is_too_large_is_not_taken(gateway: Gateway) -> None:
    answered = gateway.post(CHAT, b" " * (LARGEST + 1))
    assert answered.status_code == 413
    assert "error" in answered.json()
    chunks = iter([b" " * LARGEST, b" "])
    answered = requests.post(gateway.url + CHAT, data=chunks, timeout=SECONDS)
    assert answered.status_code == 413


def test_with_nobody_there_it_is_said_when_to_come_again(tmp_path: Path) -> None:
    with (
        Simulated(tmp_path, "gpu-a") as backend,
        Gateway(tmp_path, {"gpu-a": backend.url}) as gateway,
    ):
        assert gateway.status("/-/ready") == 200
        backend.kill()
        eventually(lambda: gateway.status("/-/ready") == 503, "not ready")
        for path, body in ((CHAT, question(CHAT)), ("/v1/embeddings", {"model": "tiny"})):
            answered = gateway.post(path, body)
            assert answered.status_code == 503
            assert answered.headers["retry-after"].isdecimal()
            assert answered.json()["error"]["type"] == "service_unavailable_error"
        assert gateway.status("/-/healthy") == 200
        with Simulated(tmp_path, "again", port=int(backend.url.rpartition(":")[2])):
            eventually(lambda: gateway.status("/-/ready") == 200, "ready again")
            assert gateway.post(CHAT, question(CHAT)).status_code == 200


def test_a_backend_that_was_never_there_is_no_hindrance(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    with (
        Simulated(tmp_path, "gpu-b", steps_per_second=200) as backend,
        Gateway(tmp_path, {"gpu-a": nobody, "gpu-b": backend.url}) as gateway,
    ):
        heard = hear(gateway.url, CHAT, question(CHAT))
        heard.is_one_whole_answer(CHAT, question(CHAT))


def test_requests_are_spread_over_the_backends(tmp_path: Path) -> None:
    with (
        Simulated(tmp_path, "gpu-a", steps_per_second=50) as one,
        Simulated(tmp_path, "gpu-b", steps_per_second=50) as two,
        Gateway(tmp_path, {"gpu-a": one.url, "gpu-b": two.url}) as gateway,
        listening(gateway.url, CHAT, question(CHAT, 3000)) as first,
        listening(gateway.url, CHAT, question(CHAT, 3000)) as second,
    ):
        first.read(2)
        second.read(2)
        assert {row["backend"] for row in gateway.in_flight()} == {"gpu-a", "gpu-b"}


def test_only_those_with_a_key_are_answered_and_each_so_much(
    tmp_path: Path, backend: Simulated
) -> None:
    keys = "".join(
        f"{name}:{hashlib.sha256(key.encode()).hexdigest()}\n"
        for name, key in (("alice", "key-a"), ("bob", "key-b"))
    )
    (tmp_path / "keys").write_text(keys)
    with Gateway(tmp_path, {"gpu-a": backend.url}, keys_file="keys", per_caller=1) as gateway:
        for key in ({}, {"authorization": "Bearer other"}, {"authorization": "key-a"}):
            refused = gateway.post(CHAT, question(CHAT), **key)
            assert refused.status_code == 401
            assert refused.json()["error"]["type"] == "authentication_error"
            assert gateway.status("/v1/models") == 401
            assert gateway.status("/version") == 401
        alice, bob = {"authorization": "Bearer key-a"}, {"authorization": "Bearer key-b"}
        with listening(gateway.url, CHAT, question(CHAT, 9000), **alice) as stream:
            stream.read(2)
            refused = gateway.post(CHAT, question(CHAT), **alice)
            assert refused.status_code == 429
            assert refused.headers["retry-after"].isdecimal()
            assert refused.json()["error"]["type"] == "rate_limit_error"
            served = hear(gateway.url, CHAT, question(CHAT), **bob)
            served.is_one_whole_answer(CHAT, question(CHAT))
            assert gateway.billed(served.last_id.rpartition(".")[0], "complete").caller == "bob"
        assert "key-a" not in gateway.said


def test_a_backends_key_is_its_own(tmp_path: Path) -> None:
    def play(connection: socket.socket, got: Got) -> None:
        answer(connection, 200, json.dumps(dict(got.headers)).encode())

    with (
        Hostile(play) as echo,
        Gateway(tmp_path, {"gpu-a": echo.url}) as gateway,
    ):
        said = requests.get(
            f"{gateway.url}/echo",
            headers={"authorization": "Bearer secret", "x-mine": "1"},
            timeout=SECONDS,
        ).json()
        assert "authorization" not in said
        assert said["x-mine"] == "1"
        assert said["x-request-id"]


def test_the_same_key_twice_is_charged_once(gateway: Gateway, backend: Simulated) -> None:
    named = {"idempotency_key": "order-66", "authorization": "Bearer me"}
    backend.pace(SLOWLY)
    with listening(gateway.url, CHAT, question(CHAT, 400), **named) as stream:
        stream.read(2)
        busy = gateway.post(CHAT, question(CHAT), **named)
        assert busy.status_code == 409
        assert busy.headers["retry-after"].isdecimal()
        backend.pace(STEPS)
        assert hear(gateway.url, CHAT, question(CHAT), idempotency_key="order-66").status == 200
        stream.rest()
    gateway.billed(stream.heard.headers["x-request-id"], "complete")
    again = gateway.post(CHAT, question(CHAT), **named)
    assert again.status_code == 409
    assert again.json()["error"]["type"] == "conflict_error"


def test_the_official_client_is_served_unmodified(gateway: Gateway) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="me", max_retries=0)
    body = question(CHAT)
    with client, streamed(client, body) as chunks:
        said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == text(CHAT, body)
