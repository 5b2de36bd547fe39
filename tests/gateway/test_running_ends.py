"""The running gateway in front of servers that end as servers do: nobody notices."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.hearing import (
    CHAT,
    COMPLETIONS,
    Heard,
    hear,
    listening,
    prompt_length,
    question,
    text,
)
from tests.gateway.hostile import END, HEAD, Hostile, Play, answer, chunk, reset, said
from tests.gateway.playing import Got
from tests.gateway.running import SLOWLY, Gateway, Simulated, eventually

pytestmark = pytest.mark.long

BOTH = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
REFUSED = json.dumps({"error": {"message": "cannot schedule new futures after shutdown"}}).encode()
ERROR = b'data: {"error": {"message": "EngineCore encountered an issue.", "code": 500}}\n\n'
DONE = b"data: [DONE]\n\n"


def begin(connection: socket.socket, got: Got, count: int) -> list[bytes]:
    """Send the first frames, and return the others."""
    found = said(got)
    connection.sendall(HEAD)
    for frame in found[:count]:
        chunk(connection, frame)
    return found[count:]


def error_then_done(connection: socket.socket, got: Got) -> None:
    begin(connection, got, 7)
    chunk(connection, ERROR + DONE)
    connection.sendall(END)


def error_first(connection: socket.socket, got: Got) -> None:
    begin(connection, got, 0)
    chunk(connection, ERROR + DONE)
    connection.sendall(END)


def abort_usage_done(connection: socket.socket, got: Got) -> None:
    left = begin(connection, got, 7)
    aborted = json.loads(left[0].removeprefix(b"data: "))
    aborted["choices"][0]["finish_reason"] = "abort"
    chunk(connection, b"data: " + json.dumps(aborted).encode() + b"\n\n")
    chunk(connection, b"".join(left[-2:]))
    connection.sendall(END)


def usage_and_done_alone(connection: socket.socket, got: Got) -> None:
    chunks = begin(connection, got, 7)[-2:]
    chunk(connection, b"".join(chunks))
    connection.sendall(END)


def end_of_file(connection: socket.socket, got: Got) -> None:
    begin(connection, got, 7)


def clean_end_too_early(connection: socket.socket, got: Got) -> None:
    begin(connection, got, 7)
    connection.sendall(END)


def half_a_frame(connection: socket.socket, got: Got) -> None:
    left = begin(connection, got, 7)
    chunk(connection, left[0][: len(left[0]) // 2])


def half_a_chunk(connection: socket.socket, got: Got) -> None:
    left = begin(connection, got, 7)
    connection.sendall(b"%x\r\n%b" % (len(left[0]), left[0][:50]))


def a_reset(connection: socket.socket, got: Got) -> None:
    begin(connection, got, 7)
    reset(connection)


def no_http(connection: socket.socket, got: Got) -> None:
    del got
    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")


def no_http_later(connection: socket.socket, got: Got) -> None:
    begin(connection, got, 7)
    connection.sendall(b"zz\r\n")


def no_json(connection: socket.socket, got: Got) -> None:
    begin(connection, got, 7)
    chunk(connection, b"data: {[\n\n")


def a_page(connection: socket.socket, got: Got) -> None:
    del got
    answer(connection, 200, b"<html>Welcome</html>")


def nothing(connection: socket.socket, got: Got) -> None:
    del connection, got


def refusing(status: int) -> Play:
    def play(connection: socket.socket, got: Got) -> None:
        del got
        answer(connection, status, REFUSED, "retry-after: 30")

    return play


AFTER_BYTES = [
    error_then_done,
    abort_usage_done,
    usage_and_done_alone,
    end_of_file,
    clean_end_too_early,
    half_a_frame,
    half_a_chunk,
    a_reset,
    no_http_later,
    no_json,
]
BEFORE_BYTES = {
    "error first": error_first,
    "no http": no_http,
    "a page": a_page,
    "nothing": nothing,
    "500": refusing(500),
    "429": refusing(429),
    "503": refusing(503),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("honest"), "honest", steps_per_second=200) as server:
        yield server


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with Hostile(nothing) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, hostile: Hostile, honest: Simulated
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with Gateway(folder, {"hostile": hostile.url, "honest": honest.url}) as gateway:
        yield gateway


@pytest.fixture
def against(gateway: Gateway, hostile: Hostile) -> Callable[[Play], Gateway]:
    """A gateway that asks a hostile server first and has an honest one."""

    def start(play: Play) -> Gateway:
        hostile.play = play
        # What it did before is forgotten, so that it is asked first again.
        gateway.admin("backends/hostile/undrain", "POST")
        eventually(lambda: gateway.admin("backends/hostile")["state"] == "up", "it is up")
        hostile.got.clear()
        return gateway

    return start


def billed_once(gateway: Gateway, path: str, body: dict[str, object], heard: Heard) -> None:
    row = gateway.billed(heard.last_id.rpartition(".")[0], "complete")
    assert (row.prompt_tokens, row.completion_tokens) == (prompt_length(path, body), 40)


@BOTH
@pytest.mark.parametrize("play", AFTER_BYTES)
def test_a_stream_that_a_backend_broke_off_goes_on_elsewhere_unnoticed(
    against: Callable[[Play], Gateway], path: str, play: Play
) -> None:
    gateway, body = against(play), question(path)
    before = gateway.ledger()
    heard = hear(gateway.url, path, body)
    heard.is_one_whole_answer(path, body)
    billed_once(gateway, path, body, heard)
    assert len(gateway.ledger()) == len(before) + 1


@BOTH
@pytest.mark.parametrize("play", BEFORE_BYTES.values(), ids=BEFORE_BYTES)
def test_what_gave_nothing_yet_is_asked_elsewhere_and_charged_once(
    against: Callable[[Play], Gateway], path: str, play: Play
) -> None:
    gateway, body = against(play), question(path)
    heard = hear(gateway.url, path, body)
    heard.is_one_whole_answer(path, body)
    billed_once(gateway, path, body, heard)


@BOTH
def test_a_true_end_before_a_silence_is_an_end(
    against: Callable[[Play], Gateway], path: str, honest: Simulated
) -> None:
    before = honest.asked(path)

    def silent_at_the_end(connection: socket.socket, got: Got) -> None:
        begin(connection, got, 40)
        connection.recv(1)

    gateway, body = against(silent_at_the_end), question(path)
    heard = hear(gateway.url, path, body)
    heard.is_one_whole_answer(path, body)
    billed_once(gateway, path, body, heard)
    assert honest.asked(path) == before


@BOTH
def test_comments_are_no_progress(against: Callable[[Play], Gateway], path: str) -> None:
    def comments(connection: socket.socket, got: Got) -> None:
        begin(connection, got, 7)
        connection.settimeout(0.2)
        while True:
            chunk(connection, b": ping\n\n")
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue

    gateway, body = against(comments), question(path)
    heard = hear(gateway.url, path, body)
    heard.is_one_whole_answer(path, body)
    assert b": ping\n\n" in heard.raw


@BOTH
@pytest.mark.parametrize("play", [a_reset, end_of_file, error_then_done, abort_usage_done])
def test_a_client_that_does_not_stream_gets_its_one_body(
    against: Callable[[Play], Gateway], path: str, play: Play, honest: Simulated
) -> None:
    gateway, body = against(play), question(path) | {"stream": False}
    answered = gateway.post(path, body)
    direct = hear(honest.url, path, body)
    assert answered.status_code == 200
    ours, theirs = answered.json(), json.loads(direct.raw)
    key = "message" if path == CHAT else "text"
    said = [one["choices"][0][key] for one in (ours, theirs)]
    if path == CHAT:
        said = [one["content"] for one in said]
    assert said[0] == said[1]
    assert ours["choices"][0]["finish_reason"] == "length"
    assert {name: ours["usage"][name] for name in theirs["usage"]} == theirs["usage"]


@pytest.mark.parametrize("play", [error_then_done, a_reset])
def test_what_can_never_go_on_but_is_sent_whole_begins_anew_elsewhere(
    against: Callable[[Play], Gateway], play: Play
) -> None:
    gateway, body = against(play), question(CHAT) | {"stream": False}
    answered = gateway.post(CHAT, body, x_resume="never")
    assert answered.status_code == 200
    assert answered.json()["choices"][0]["message"]["content"] == text(CHAT, body)
    row = gateway.billed(answered.headers["x-request-id"], "complete")
    assert (row.prompt_tokens, row.completion_tokens) == (prompt_length(CHAT, body), 40)


def test_what_is_sent_whole_and_nobody_can_end_costs_nothing(tmp_path: Path) -> None:
    with Hostile(a_reset) as hostile, Gateway(tmp_path, {"hostile": hostile.url}) as gateway:
        refused = gateway.post(CHAT, question(CHAT) | {"stream": False})
        assert refused.status_code == 503
        assert refused.headers["retry-after"].isdecimal()
        assert gateway.billed(refused.headers["x-request-id"], "failed").completion_tokens == 0
        [line] = gateway.report()
        assert (line["prompt_tokens"], line["completion_tokens"], line["free"]) == (0, 0, 1)


@pytest.mark.parametrize("play", [error_then_done, a_reset, half_a_frame, abort_usage_done])
def test_what_can_never_go_on_ends_with_a_frame_without_a_token(
    against: Callable[[Play], Gateway], play: Play
) -> None:
    gateway, body = against(play), question(CHAT)
    heard = hear(gateway.url, CHAT, body, x_resume="never")
    assert heard.goodbye
    assert heard.goodbye["resumeToken"] is None
    assert heard.goodbye["generatedTokens"] == 7
    assert "error" in heard.goodbye
    assert not heard.broken
    row = gateway.billed(heard.goodbye["requestId"], "partial")
    assert (row.prompt_tokens, row.completion_tokens) == (prompt_length(CHAT, body), 7)


def test_two_answers_at_once_are_never_spliced(against: Callable[[Play], Gateway]) -> None:
    def two(connection: socket.socket, got: Got) -> None:
        body = json.loads(got.body)
        one = Got(got.line, got.headers, json.dumps({**body, "n": 1}).encode())
        begin(connection, one, 5)

    gateway = against(two)
    heard = hear(gateway.url, CHAT, question(CHAT, n=2))
    assert heard.goodbye
    assert heard.goodbye["resumeToken"] is None


@BOTH
def test_a_backend_that_is_killed_is_not_noticed(tmp_path: Path, path: str) -> None:
    with (
        Simulated(tmp_path, "gpu-a", steps_per_second=SLOWLY) as dying,
        Simulated(tmp_path, "gpu-b", steps_per_second=200) as other,
        Gateway(tmp_path, {"gpu-a": dying.url, "gpu-b": other.url}) as gateway,
        listening(gateway.url, path, question(path)) as stream,
    ):
        stream.read(8)
        dying.kill()
        heard = stream.rest()
        heard.is_one_whole_answer(path, question(path))
        billed_once(gateway, path, question(path), heard)
        again = hear(gateway.url, path, question(path))
        again.is_one_whole_answer(path, question(path))
        assert other.asked(path) == 2


@BOTH
def test_a_backend_that_freezes_is_not_noticed(tmp_path: Path, path: str) -> None:
    with (
        Simulated(tmp_path, "gpu-a", steps_per_second=SLOWLY) as frozen,
        Simulated(tmp_path, "gpu-b", steps_per_second=200) as other,
        Gateway(tmp_path, {"gpu-a": frozen.url, "gpu-b": other.url}) as gateway,
        listening(gateway.url, path, question(path)) as stream,
    ):
        stream.read(8)
        frozen.fault("freeze")
        heard = stream.rest()
        heard.is_one_whole_answer(path, question(path))
        billed_once(gateway, path, question(path), heard)
        frozen.fault("thaw")
        eventually(lambda: frozen.in_hand == 0, "the frozen server was hung up on")
        assert frozen.state()["engines"][0]["generation_tokens"] < 40


def test_one_that_says_less_than_it_should_and_nobody_else_gives_a_token(tmp_path: Path) -> None:
    with (
        Hostile(a_reset) as hostile,
        Gateway(tmp_path, {"hostile": hostile.url}) as gateway,
    ):
        heard = hear(gateway.url, CHAT, question(CHAT))
        assert heard.goodbye
        assert heard.goodbye["resumeToken"]
        assert heard.goodbye["reason"] == "interrupted"
        gateway.billed(heard.goodbye["requestId"], "partial")
