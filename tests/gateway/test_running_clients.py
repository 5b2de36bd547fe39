"""The running gateway and clients that hang up, are slow, or speak HTTP in their own way."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.gateway.hearing import (
    CHAT,
    COMPLETIONS,
    hear,
    listening,
    prompt_length,
    question,
    tokens,
)
from tests.gateway.hostile import END, HEAD, Hostile, answer, chunk, said
from tests.gateway.playing import Got
from tests.gateway.running import SECONDS, SLOWLY, Gateway, Simulated, eventually

MIB = 1024 * 1024
OK = b"HTTP/1.1 200 OK"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n%b"
STEPS = 100.0


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    folder = tmp_path_factory.mktemp("backend")
    with Simulated(folder, "gpu-a", steps_per_second=STEPS) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, backend: Simulated) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), {"gpu-a": backend.url}) as gateway:
        yield gateway


def raw(gateway: Gateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS)


def request(path: str, body: bytes = b"", method: str = "POST", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: x", *headers]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def all_of(connection: socket.socket) -> bytes:
    found = b""
    while data := connection.recv(65536):
        found += data
    return found


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_who_hangs_up_pays_for_what_was_sent_and_no_more_is_generated(
    gateway: Gateway, backend: Simulated, path: str
) -> None:
    body = question(path, 3000)
    backend.pace(SLOWLY)
    with listening(gateway.url, path, body) as stream:
        heard = stream.read(20)
    eventually(lambda: backend.in_hand == 0, "the backend was hung up on")
    row = gateway.billed(heard.headers["x-request-id"], "partial")
    assert row.prompt_tokens == prompt_length(path, body)
    # Some more were on their way than this client has read.
    received = len(heard.events) - (path == CHAT)
    assert received <= row.completion_tokens < received + 100
    assert gateway.in_flight() == []
    backend.pace(STEPS)


def test_who_waits_for_a_whole_answer_and_hangs_up_pays_nothing(
    gateway: Gateway, backend: Simulated
) -> None:
    body = question(CHAT, 3000) | {"stream": False}
    before = charged(gateway)
    with raw(gateway) as connection:
        named = "x-request-id: waited-in-vain"
        connection.sendall(request(CHAT, json.dumps(body).encode(), "POST", named))
        eventually(lambda: backend.in_hand == 1, "it is generated")
    eventually(lambda: backend.in_hand == 0, "the backend was hung up on")
    assert gateway.billed("waited-in-vain", "failed").completion_tokens == 0
    assert charged(gateway) == before


def charged(gateway: Gateway) -> list[int]:
    """All prompt and completion tokens on the bill."""
    lines = gateway.report()
    return [sum(line[name] for line in lines) for name in ("prompt_tokens", "completion_tokens")]


def test_who_hangs_up_in_the_queue_is_out_of_it(gateway: Gateway, backend: Simulated) -> None:
    backend.fault("freeze")
    try:
        with raw(gateway) as connection:
            named = "x-request-id: queued"
            body = json.dumps(question(CHAT)).encode()
            connection.sendall(request(CHAT, body, "POST", named))
            eventually(lambda: backend.in_hand == 1, "it is queued")
        eventually(lambda: gateway.in_flight() == [], "it is forgotten")
        assert gateway.billed("queued", "failed").prompt_tokens is None
    finally:
        backend.fault("thaw")
    eventually(lambda: backend.in_hand == 0, "and at the backend, too")


def test_who_hangs_up_on_something_relayed_is_not_asked_for_elsewhere(tmp_path: Path) -> None:
    asked = threading.Event()

    def silent(connection: socket.socket, got: Got) -> None:
        del got
        asked.set()
        assert connection.recv(1) == b""

    with (
        Hostile(silent) as one,
        Hostile(silent) as two,
        Gateway(tmp_path, {"gpu-a": one.url, "gpu-b": two.url}) as gateway,
    ):
        with raw(gateway) as connection:
            connection.sendall(request("/v1/embeddings", b'{"model": "tiny"}'))
            assert asked.wait(SECONDS)
        eventually(lambda: gateway.in_flight() == [], "it is forgotten")
        assert len(one.got) + len(two.got) == 1


def test_a_client_that_does_not_read_holds_the_backend_back_and_no_memory(tmp_path: Path) -> None:
    sent = [0]

    def endless(connection: socket.socket, got: Got) -> None:
        connection.sendall(HEAD)
        frames = said(got)
        chunk(connection, frames[0])
        piece = b"".join(frames[1:-3]) * 20
        while sent[0] < 400 * MIB:
            chunk(connection, piece)
            sent[0] += len(piece)

    with Hostile(endless) as hostile, Gateway(tmp_path, {"gpu-a": hostile.url}) as gateway:
        before = gateway.memory
        with raw(gateway) as connection:
            body = json.dumps(question(CHAT, 400)).encode()
            connection.sendall(request(CHAT, body))
            eventually(lambda: sent[0] > MIB, "it flows")
            seen = -1
            while seen != sent[0]:  # until nothing moves any more for longer than stall_after
                seen = sent[0]
                threading.Event().wait(4.0)
            assert gateway.memory - before < 40 * MIB
            assert seen < 100 * MIB
            # A client's slowness is no backend's stall.
            assert gateway.admin("backends/gpu-a")["state"] == "up"
            assert [row["legs"] for row in gateway.in_flight()] == [1]
            for _ in range(200):
                assert connection.recv(MIB)
            eventually(lambda: sent[0] > seen, "it flows again")
        eventually(lambda: gateway.in_flight() == [], "it is over")


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
def test_a_client_that_never_reads_counts_as_gone_in_the_end(tmp_path: Path, path: str) -> None:
    hung_up = threading.Event()

    def endless(connection: socket.socket, got: Got) -> None:
        connection.sendall(HEAD)
        frames = said(got) if path == CHAT else [b"0123456789" * 10] * 10
        chunk(connection, frames[0])
        piece = b"".join(frames[1:-3]) * 20
        try:
            while True:
                chunk(connection, piece)
        except OSError:
            hung_up.set()

    body = json.dumps(question(CHAT, 400)).encode()
    named = ("x-request-id: unread",)
    with (
        Hostile(endless) as hostile,
        Gateway(tmp_path, {"gpu-a": hostile.url}, client_stall_after="2s") as gateway,
        raw(gateway) as connection,
    ):
        connection.sendall(request(path, body, "POST", *named))
        assert hung_up.wait(20.0), "the backend's slot is free"
        eventually(lambda: gateway.in_flight() == [], "it is over")
        assert not all_of(connection).endswith(END), "nobody takes it for whole"
        row = gateway.billed("unread", "partial" if path == CHAT else "failed")
        assert (row.completion_tokens > 1000) == (path == CHAT)
        counted = 'gateway_interrupted_total{reason="unread"} 1.0'
        assert counted in requests.get(f"{gateway.url}/metrics", timeout=20.0).text
        assert re.search(r"request=unread .* end=unread ", gateway.said)
        if path == CHAT:  # kept, though this one has not read as far as it was sent
            with listening(gateway.url, path, {}, last_event_id="unread.1") as stream:
                assert stream.read(1).numbers == [2]


def test_who_asks_on_and_on_without_reading_costs_no_memory(gateway: Gateway) -> None:
    before, many = gateway.memory, 4000
    with raw(gateway) as connection:
        connection.sendall(request("/metrics", b"", "GET") * many)
        for _ in range(10):  # whatever it has read meanwhile is dealt with
            assert gateway.status("/-/healthy") == 200
        assert gateway.memory - before < 10 * MIB
        found, seen = 0, b""
        while found < many:
            data = connection.recv(MIB)
            seen = seen[1 - len(OK) :] + data
            found += seen.count(OK)
            assert data


def test_a_connection_is_kept_and_answers_come_in_order(gateway: Gateway) -> None:
    body = json.dumps(question(CHAT, 5) | {"stream": False}).encode()
    last = ("connection: close",)
    with raw(gateway) as connection:
        asked = request(CHAT, body) + request("/-/healthy", b"", "GET") + request("/none")
        asked += request(CHAT, body) + request("/-/healthy", b"", "GET", *last)
        for start in range(0, len(asked), 100):
            connection.sendall(asked[start : start + 100])
        found = all_of(connection)
    heads = [part.partition(b"\r\n")[0] for part in found.split(b"HTTP/1.1 ")[1:]]
    assert heads == [b"200 OK", b"200 OK", b"404 Not Found", b"200 OK", b"200 OK"]
    assert found.count(b"chat.completion") == 2
    assert found.endswith(b"healthy\n")


def test_a_thousand_requests_in_one_piece_are_answered(gateway: Gateway) -> None:
    many = 5000
    body = json.dumps(question(CHAT, 20) | {"stream": False}).encode()
    with raw(gateway) as connection:
        # All of them wait for the first one, which takes its time.
        asked = request(CHAT, body) + b"GET /-/healthy HTTP/1.1\r\nhost: x\r\n\r\n" * many
        sender = threading.Thread(target=connection.sendall, args=(asked,))
        sender.start()
        found = b""
        while found.count(b"healthy\n") < many:
            data = connection.recv(MIB)
            assert data, found[-200:]
            found += data
        sender.join()
    assert gateway.status("/-/healthy") == 200


def test_a_body_in_chunks_and_one_that_waits_to_be_asked_for(gateway: Gateway) -> None:
    body = json.dumps(question(CHAT, 5) | {"stream": False}).encode()
    with raw(gateway) as connection:
        connection.sendall(request(CHAT, b"", "POST", "transfer-encoding: chunked"))
        for start in range(0, len(body), 10):
            chunk(connection, body[start : start + 10])
        connection.sendall(b"0\r\n\r\n")
        found = connection.recv(65536)
        assert found.startswith(b"HTTP/1.1 200 OK")
        assert found.endswith(b"}")
        headers = ("expect: 100-continue", f"content-length: {len(body)}", "connection: close")
        connection.sendall(request(CHAT, b"", "POST", *headers))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert all_of(connection).startswith(b"HTTP/1.1 200 OK")


def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(gateway: Gateway) -> None:
    with raw(gateway) as connection:
        headers = ("expect: 100-continue", f"content-length: {17 * MIB}")
        connection.sendall(request(CHAT, b"", "POST", *headers))
        found = connection.recv(65536)
    assert found.startswith(b"HTTP/1.1 413 ")


def test_a_large_body_is_refused_so_that_the_client_can_read_it(gateway: Gateway) -> None:
    answered = gateway.post(CHAT, b" " * 17 * MIB)
    assert answered.status_code == 413
    assert answered.json()["error"]["type"] == "invalid_request_error"


def test_an_older_client_gets_no_chunks(gateway: Gateway) -> None:
    body = json.dumps(question(CHAT, 5)).encode()
    with raw(gateway) as connection:
        head = f"POST {CHAT} HTTP/1.0\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body)
        found = all_of(connection)
    head, _, rest = found.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert rest.startswith(b"id: ")
    assert rest.endswith(b"data: [DONE]\n\n")


def test_an_offer_to_speak_something_else_is_passed_over(gateway: Gateway) -> None:
    body = json.dumps(question(CHAT, 5) | {"stream": False}).encode()
    offer = ("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABk")
    with raw(gateway) as connection:
        connection.sendall(request(CHAT, body, "POST", *offer))
        connection.sendall(request("/-/healthy", b"", "GET", "connection: close"))
        found = all_of(connection)
    assert found.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(
    "said",
    [
        b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_said_to_be_none(gateway: Gateway, said: bytes) -> None:
    with raw(gateway) as connection:
        connection.sendall(said)
        assert all_of(connection).startswith(b"HTTP/1.1 400 Bad Request")


def test_an_endless_head_is_not_read_to_its_end(gateway: Gateway) -> None:
    with raw(gateway) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        connection.sendall(b"x-many: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 2000)
        assert all_of(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("more", [ANSWER % b"another", b"HTTP/1.1 200 OK\r\ncontent-le", b"?"])
@pytest.mark.parametrize("late", [False, True], ids=["at once", "later"])
def test_a_connection_on_which_more_comes_than_was_asked_for_is_not_used_again(
    tmp_path: Path, more: bytes, *, late: bool
) -> None:
    answered = threading.Event()
    afterwards: list[bytes] = []

    def talkative(connection: socket.socket, got: Got) -> None:
        del got
        first = ANSWER % b"the one"
        connection.sendall(first if late else first + more)
        if late:
            assert answered.wait(20.0)
            connection.sendall(more)
        try:
            afterwards.append(connection.recv(1))
        except ConnectionResetError:
            afterwards.append(b"")

    with Hostile(talkative) as hostile, Gateway(tmp_path, {"gpu-a": hostile.url}) as gateway:
        for number in (1, 2):
            answered.clear()
            with raw(gateway) as connection:
                connection.sendall(request("/any", b"", "GET", "connection: close"))
                assert all_of(connection).endswith(b"\r\n\r\nthe one")
            answered.set()
            eventually(lambda n=number: len(afterwards) == n, "it is closed")
    assert afterwards == [b"", b""]


def test_a_kept_connection_that_the_server_closes_is_no_failure(tmp_path: Path) -> None:
    def closing(connection: socket.socket, got: Got) -> None:
        path = got.line.split(" ")[1]
        if path == CHAT:
            frames = b"".join(said(got))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            connection.sendall(b"content-length: %d\r\n\r\n%b" % (len(frames), frames))
        else:
            answer(connection, 200, b"{}")
        # As a server does whose time for idle connections is up: when the next request comes.
        connection.recv(1)

    with Hostile(closing) as hostile, Gateway(tmp_path, {"gpu-a": hostile.url}) as gateway:
        for _ in range(4):
            heard = hear(gateway.url, CHAT, question(CHAT))
            heard.is_one_whole_answer(CHAT, question(CHAT))
            assert gateway.admin("backends/gpu-a")["state"] == "up"


def test_two_that_give_themselves_one_id_are_two(gateway: Gateway) -> None:
    body = question(CHAT, 300)
    alice, bob = {"authorization": "Bearer a"}, {"authorization": "Bearer b"}
    with listening(gateway.url, CHAT, body, x_request_id="mine", **alice) as first:
        first.read(2)
        with listening(gateway.url, CHAT, body, x_request_id="mine", **bob) as second:
            assert second.rest().text == first.rest().text
    ids = {one.heard.headers["x-request-id"] for one in (first, second)}
    assert len(ids) == 2
    for one in ids:
        assert gateway.billed(one, "complete").completion_tokens == len(tokens(CHAT, body))
