"""The running gateway's own end: told once, told twice, killed; and who goes on after it."""

import hashlib
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict, Unpack

import httpx
import pytest

from gateway.client import ResumingTransport
from tests.gateway.hearing import CHAT, COMPLETIONS, Heard, hear, listening, question, text, tokens
from tests.gateway.official import official, streamed
from tests.gateway.running import QUICKLY, SLOWLY, Gateway, Simulated, eventually

BOTH = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
KEYS = {"alice": "key-a", "bob": "key-b"}
ALICE, BOB = ({"authorization": f"Bearer {key}"} for key in KEYS.values())


class Times(TypedDict, total=False):
    """Settings of a gateway that are durations."""

    propagation: str
    margin: str
    window: str
    keep_alive: str


QUICK: Times = {"propagation": "1s", "margin": "1s", "window": "4s"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("backend"), "gpu-a", max_num_seqs=16) as server:
        yield server


@pytest.fixture
def backend(running: Simulated) -> Simulated:
    running.pace(SLOWLY)
    return running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in KEYS.items()]
    (tmp_path / "keys").write_text("\n".join(lines))
    return tmp_path


def start(
    folder: Path, backend: Simulated, name: str = "gateway", **more: Unpack[Times]
) -> Gateway:
    times: Times = {**QUICK, **more}
    return Gateway(folder, {"gpu-a": backend.url}, name=name, keys_file="keys", **times)


def joined(*parts: Heard) -> Heard:
    """What a client has that leaves the shutdown frames out and goes on."""
    whole = Heard(status=200)
    for part in parts:
        kept = part.raw
        if part.goodbye is not None:
            kept = kept[: kept.rindex(b"id: ")]
        whole.raw += kept
        whole.broken = part.broken
    return whole


def is_one_whole_answer(whole: Heard, path: str, body: dict[str, object]) -> None:
    """As Heard says it, but that shutdown frames had numbers, too."""
    numbers = whole.numbers
    assert numbers == sorted(set(numbers))
    assert whole.text == text(path, body)
    assert whole.finish_reasons == ["length"]
    assert whole.done == 1
    assert len(whole.who) == 1
    assert whole.raw.count(b'"role":') == (path == CHAT)


def test_told_to_end_it_lets_go_of_its_traffic_step_by_step(
    folder: Path, backend: Simulated
) -> None:
    with (
        start(folder, backend, propagation="3s", window="10s", margin="1s") as gateway,
        listening(gateway.url, CHAT, question(CHAT, 60), **ALICE) as short,
        listening(gateway.url, CHAT, question(CHAT, 9000), **ALICE) as long,
    ):
        short.read(2)
        long.read(2)
        began = time.monotonic()
        gateway.term()
        eventually(lambda: gateway.status("/-/ready") == 503, "readiness says so")
        assert gateway.status("/-/healthy") == 200
        taken = gateway.post(CHAT, question(CHAT, 5) | {"stream": False}, **ALICE)
        assert taken.status_code == 200
        eventually(lambda: gateway.post(CHAT, question(CHAT, 1), **ALICE).status_code == 503)
        assert time.monotonic() - began >= 3.0
        refused = gateway.post(CHAT, question(CHAT, 5), **ALICE)
        assert refused.headers["retry-after"].isdecimal()
        assert refused.headers["connection"] == "close"
        assert refused.json()["error"]["type"] == "service_unavailable_error"
        assert gateway.status("/-/healthy") == 200
        backend.pace(QUICKLY)
        short.rest().is_one_whole_answer(CHAT, question(CHAT, 60))
        backend.pace(SLOWLY)
        heard = long.rest()
        assert gateway.wait() == 0
        assert time.monotonic() - began >= 9.0
        assert heard.goodbye
        assert heard.goodbye["reason"] == "shutdown"
        assert heard.goodbye["resumeToken"]
        assert not heard.broken
        rows = gateway.ledger()
        assert heard.goodbye["generatedTokens"] == len(tokens_of(heard))
        cut = rows[heard.goodbye["requestId"]]
        assert (cut.state, cut.completion_tokens) == ("partial", heard.goodbye["generatedTokens"])
        whole = rows[short.heard.headers["x-request-id"]]
        assert (whole.state, whole.completion_tokens) == ("complete", 60)
        assert not list((folder / "gateway.journal").glob("*.journal"))


def tokens_of(heard: Heard) -> list[str]:
    return [f for f in heard.text.split(" ") if f] if heard.text else []


def test_told_with_nothing_to_do_it_ends_after_the_propagation(
    folder: Path, backend: Simulated
) -> None:
    with start(folder, backend, window="600s") as gateway:
        began = time.monotonic()
        gateway.term()
        assert gateway.wait() == 0
        assert time.monotonic() - began >= 1.0


def test_told_twice_it_cuts_at_once_with_frames_and_bills(folder: Path, backend: Simulated) -> None:
    with (
        start(folder, backend, window="600s") as gateway,
        listening(gateway.url, CHAT, question(CHAT, 9000), **ALICE) as one,
        listening(gateway.url, COMPLETIONS, question(COMPLETIONS, 9000), **BOB) as two,
    ):
        waiting = threading.Thread(
            target=gateway.post, args=(CHAT, question(CHAT, 9000) | {"stream": False}), kwargs=ALICE
        )
        waiting.start()
        one.read(5)
        two.read(5)
        eventually(lambda: len(gateway.in_flight()) == 3, "all are there")
        gateway.term_twice()
        for stream in (one, two):
            heard = stream.rest()
            assert heard.goodbye
            assert heard.goodbye["resumeToken"]
        assert gateway.wait() == 0
        waiting.join()
        rows = gateway.ledger()
        assert sorted(row.state for row in rows.values()) == ["failed", "partial", "partial"]
        for stream in (one, two):
            goodbye = stream.heard.goodbye
            assert goodbye
            assert rows[goodbye["requestId"]].completion_tokens == goodbye["generatedTokens"]
    eventually(lambda: backend.in_hand == 0, "the backend was hung up on")


@BOTH
@pytest.mark.parametrize("by", ["token in a header", "token in the body", "last event's id"])
def test_another_gateway_takes_it_up_once_and_for_its_caller_alone(
    folder: Path, backend: Simulated, path: str, by: str
) -> None:
    body = question(path, 250)
    with start(folder, backend) as first, listening(first.url, path, body, **ALICE) as stream:
        stream.read(10)
        first.term_twice()
        heard = stream.rest()
        assert heard.goodbye
        assert first.wait() == 0
        backend.pace(QUICKLY)
        with start(folder, backend, "second") as second:
            token = heard.goodbye["resumeToken"]
            named: dict[str, str] = {}
            again: dict[str, object] = {}
            if by == "token in a header":
                named = {"x_resume_token": token}
            elif by == "token in the body":
                again = {"resume_token": token}
            else:
                named = {"last_event_id": heard.last_id}
            other = second.post(path, again, **named, **BOB)
            assert other.status_code == (404 if by == "last event's id" else 403)
            rest = hear(second.url, path, again, **named, **ALICE)
            assert rest.status == 200, rest.raw
            is_one_whole_answer(joined(heard, rest), path, body)
            assert rest.numbers[0] == heard.numbers[-1] + 1
            once_more = hear(second.url, path, again, **named, **ALICE)
            if by == "last event's id":  # its end may not have arrived
                assert (once_more.status, once_more.raw) == (200, rest.raw)
            else:
                assert once_more.status == 410
                assert b'"spent"' in once_more.raw
            row = second.billed(heard.goodbye["requestId"], "complete")
            asked = len(tokens(path, body))
            assert (row.caller, row.completion_tokens) == ("alice", asked)
            assert len(second.ledger()) == 1


@BOTH
def test_a_stream_is_taken_up_again_and_again(folder: Path, backend: Simulated, path: str) -> None:
    body = question(path, 300)
    parts: list[Heard] = []
    named: dict[str, str] = {}
    for number in range(4):
        with start(folder, backend, f"gateway-{number}") as gateway:
            with listening(gateway.url, path, body, **named, **ALICE) as stream:
                if number < 3:
                    stream.read(10)
                    gateway.term()
                    eventually(lambda g=gateway: g.status("/-/ready") == 503, "told")
                    gateway.term()
                else:
                    backend.pace(QUICKLY)
                parts.append(stream.rest())
            if number < 3:
                goodbye = parts[-1].goodbye
                assert goodbye
                named = {"x_resume_token": goodbye["resumeToken"]}
                assert gateway.wait() == 0
            else:
                whole = joined(*parts)
                is_one_whole_answer(whole, path, body)
                row = gateway.billed(whole.last_id.rpartition(".")[0], "complete")
                assert row.completion_tokens == 300


@BOTH
def test_a_token_with_which_nobody_can_go_on_is_not_spent(
    folder: Path, backend: Simulated, path: str
) -> None:
    body = question(path, 200)
    with start(folder, backend) as gateway, listening(gateway.url, path, body, **ALICE) as stream:
        stream.read(15)
        gateway.term_twice()
        heard = stream.rest()
        assert heard.goodbye
        assert gateway.wait() == 0
    again = {"x_resume_token": heard.goodbye["resumeToken"], **ALICE}

    def is_refused(by: Gateway) -> None:
        answer = by.post(path, body, **again)
        assert answer.status_code == 503
        assert answer.headers["retry-after"].isdecimal()

    with (
        Simulated(folder, "gpu-b", model="another") as other,
        start(folder, other, "without-the-model") as gateway,
    ):
        is_refused(gateway)
        is_refused(gateway)
        gateway.term()
        assert gateway.wait() == 0
    with start(folder, backend, "ending", keep_alive="1500ms") as gateway:
        gateway.admin("backends/gpu-a/drain", "POST")
        with ThreadPoolExecutor(1) as asking:
            refused = asking.submit(is_refused, gateway)
            eventually(lambda: len(gateway.in_flight()) == 1, "it waits for a server")
            gateway.term()
            gateway.signal(signal.SIGINT)
            refused.result()
        assert gateway.wait() == 0
    with start(folder, backend, "able") as gateway:
        eventually(lambda: gateway.status("/-/ready") == 200, "its backend is up")
        rest = hear(gateway.url, path, body, **again)
        is_one_whole_answer(joined(heard, rest), path, body)
        assert gateway.post(path, body, **again).status_code == 410


@BOTH
def test_who_lost_the_connection_goes_on_by_the_last_events_id(
    folder: Path, backend: Simulated, path: str
) -> None:
    body = question(path, 200)
    with start(folder, backend) as gateway:
        with listening(gateway.url, path, body, **ALICE) as stream:
            heard = stream.read(10)
            busy = gateway.post(path, body, last_event_id=heard.last_id, **ALICE)
            assert busy.status_code == 409
            assert busy.json()["error"]["code"] == "busy"
            assert busy.headers["retry-after"].isdecimal()
        backend.pace(QUICKLY)
        answers = []

        def ask() -> int:
            answers.append(gateway.post(path, body, last_event_id=heard.last_id, **ALICE))
            return answers[-1].status_code

        eventually(lambda: ask() != 409, "its end is noticed")
        rest = Heard(status=200, raw=answers[-1].content)
        is_one_whole_answer(joined(heard, rest), path, body)


def test_the_official_client_does_not_notice_a_rollout(folder: Path, backend: Simulated) -> None:
    body = question(CHAT, 400)
    with start(folder, backend, "one") as one, start(folder, backend, "two") as two:
        transport = ResumingTransport(httpx.HTTPTransport(verify=False), others=[two.url])
        client = official(one.url, transport, key=KEYS["alice"], retries=0)
        said, seen = "", set()
        with client, streamed(client, body) as chunks:
            for number, part in enumerate(chunks):
                seen.add((part.id, part.created, part.model))
                said += part.choices[0].delta.content or "" if part.choices else ""
                if number == 10:
                    one.term_twice()
                    backend.pace(QUICKLY)
        assert said == text(CHAT, body)
        assert len(seen) == 1
        assert one.wait() == 0
        eventually(lambda: [r.state for r in two.ledger().values()] == ["complete"], "billed")
        [row] = two.ledger().values()
        assert row.completion_tokens == 400


def test_sighup_ends_nothing_and_is_told(folder: Path, backend: Simulated) -> None:
    body = question(CHAT, 60)
    with start(folder, backend) as gateway, listening(gateway.url, CHAT, body, **ALICE) as heard:
        heard.read(2)
        gateway.signal(signal.SIGHUP)
        backend.pace(QUICKLY)
        heard.rest().is_one_whole_answer(CHAT, body)
        assert "event=signal_ignored signal=SIGHUP" in gateway.said


def test_sigint_is_the_same_as_sigterm(folder: Path, backend: Simulated) -> None:
    with start(folder, backend) as gateway:
        gateway.signal(signal.SIGINT)
        assert gateway.wait() == 0
