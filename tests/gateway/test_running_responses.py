"""What is relayed as it is, by the real gateway: billed wherever it ends, and by what it is."""

import json
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

import pytest
import requests

from tests.gateway.hearing import COMPLETIONS
from tests.gateway.responding import (
    CREATED,
    EVENTS,
    FOR_EVER,
    JSON,
    Part,
    Responding,
    completed,
    deltas,
    event,
    frame,
    hang_up,
    started,
    streaming,
)
from tests.gateway.running import SECONDS, Gateway, Simulated, eventually

RESPONSES, EMBEDDINGS = "/v1/responses", "/v1/embeddings"
DELTA = b"event: response.output_text.delta"
ASKED = {"model": "tiny", "input": "Hello", "stream": True}


@pytest.mark.parametrize("end", [Gateway.kill, Gateway.term_twice, hang_up])
def test_what_was_delivered_of_a_stream_is_billed_however_it_is_cut(
    tmp_path: Path, end: Callable[[Gateway], None]
) -> None:
    with Responding([CREATED, *deltas(25), FOR_EVER]) as backend:
        with (
            started(tmp_path, backend) as gateway,
            streaming(gateway, RESPONSES, ASKED, "cut") as connection,
        ):
            answer = connection.getresponse()
            seen = b""
            while seen.count(DELTA) < 25:
                seen += answer.read1()
            end(gateway)
            if end is Gateway.term_twice:
                with pytest.raises((OSError, HTTPException)):
                    answer.read()
            elif end is hang_up:
                connection.close()
                gateway.billed("cut", "partial")
        with started(tmp_path, backend) as gateway:  # books what a killed one left
            row = gateway.billed("cut", "partial")
    assert row.completion_tokens == 25


def test_a_stream_that_comes_to_its_end_is_billed_by_its_usage(tmp_path: Path) -> None:
    with (
        Responding([CREATED, *deltas(10), completed()]) as backend,
        started(tmp_path, backend) as gateway,
    ):
        answer = gateway.post(RESPONSES, ASKED, x_request_id="whole")
        row = gateway.billed("whole", "complete")
    assert answer.content == b"".join([CREATED, *deltas(10), completed()])
    assert (row.prompt_tokens, row.completion_tokens) == (4, 30)


def test_a_long_last_event_is_billed(tmp_path: Path) -> None:
    logprobs = [{"token": " x", "top_logprobs": [{"token": " y", "logprob": -1.5}] * 20}] * 2000
    last = completed(output=[{"content": [{"logprobs": logprobs}]}])
    assert len(last) > 1024 * 1024
    with Responding([CREATED, last]) as backend, started(tmp_path, backend) as gateway:
        assert gateway.post(RESPONSES, ASKED, x_request_id="long").content == CREATED + last
        assert gateway.billed("long", "complete").completion_tokens == 30


@pytest.mark.parametrize("more", [{}, {"stream": True}], ids=["", "stream"])
def test_long_embeddings_are_billed_whatever_is_asked_for(
    tmp_path: Path, more: dict[str, object]
) -> None:
    vectors = [{"index": i, "embedding": [0.07154017686843872] * 1024} for i in range(500)]
    usage = {"prompt_tokens": 50_000, "total_tokens": 50_000, "completion_tokens": 0}
    answer = json.dumps({"object": "list", "data": vectors, "usage": usage}).encode()
    with Responding([answer], JSON) as backend, started(tmp_path, backend) as gateway:
        body = {"model": "tiny", "input": ["x"] * 500, **more}
        assert gateway.post(EMBEDDINGS, body, x_request_id="long").content == answer
        assert gateway.billed("long", "complete").prompt_tokens == 50_000


def test_an_answer_in_the_background_is_refused_and_what_was_stored_is_passed_through(
    tmp_path: Path,
) -> None:
    stored = json.dumps({"id": "resp_1", "usage": {"input_tokens": 4, "output_tokens": 30}})
    with Responding([stored.encode()], JSON) as backend, started(tmp_path, backend) as gateway:
        refused = gateway.post(RESPONSES, ASKED | {"background": True})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "background"
        assert not backend.asked
        for background in (False, None):
            body = {"model": "tiny", "input": "a", "background": background}
            assert gateway.post(RESPONSES, body).status_code == 200
        rows = len(gateway.ledger())
        for path in ("resp_1", "resp_1?stream=true"):
            fetched = requests.get(f"{gateway.url}{RESPONSES}/{path}", timeout=SECONDS)
            assert fetched.content == stored.encode()
        assert gateway.post(f"{RESPONSES}/resp_1/cancel").status_code == 200
        assert rows == len(gateway.ledger()) == 2


@pytest.mark.parametrize(
    ("path", "part", "kind"),
    [
        (EMBEDDINGS, b'{"model": "tiny", "usage": {}}', JSON),
        (COMPLETIONS, frame(finish="stop"), EVENTS),
    ],
)
def test_a_request_without_a_model_is_billed_as_the_only_one_that_is_served(
    tmp_path: Path, path: str, part: bytes, kind: str
) -> None:
    with Responding([part], kind) as backend, started(tmp_path, backend) as gateway:
        gateway.post(path, {"input": "x", "prompt": "x"}, x_request_id="unnamed")
        gateway.billed("unnamed", "complete")
        (row,) = gateway.report("--by", "model")
    assert row["model"] == "tiny"


def test_comments_come_between_events_while_a_stream_is_silent(tmp_path: Path) -> None:
    first, second = deltas(2)
    parts: list[Part] = [CREATED, first, 3.5, second[:20], 3.5, second[20:], completed()]
    with Responding(parts) as backend, started(tmp_path, backend) as gateway:
        raw = gateway.post(RESPONSES, ASKED).content
    comment = b": still here\n\n"
    assert raw.count(comment) >= 2
    assert raw.replace(comment, b"") == CREATED + first + second + completed()
    before, _, behind = raw.partition(comment)
    assert before == CREATED + first
    assert behind.replace(comment, b"") == second + completed()
    assert comment not in behind[behind.index(second[:20]) :]


def test_one_that_never_tells_its_usage_is_billed_by_its_events_and_told_of_once(
    tmp_path: Path,
) -> None:
    last = event("response.completed", response={"id": "resp_1"})
    with (
        Responding([CREATED, *deltas(7), last]) as backend,
        started(tmp_path, backend) as gateway,
    ):
        for name in ("one", "two"):
            gateway.post(RESPONSES, ASKED, x_request_id=name)
            assert gateway.billed(name, "complete").completion_tokens == 7
        assert gateway.said.count("event=tokens_not_told backend=gpu-a") == 1


def test_what_was_relayed_as_it_is_is_not_taken_for_somebody_elses(tmp_path: Path) -> None:
    with (
        Simulated(tmp_path, "gpu-a") as backend,
        Gateway(tmp_path, {"gpu-a": backend.url}) as gateway,
    ):
        eventually(lambda: gateway.status("/-/ready") == 200, "ready")
        gateway.book("mark")
        embedded = gateway.post(EMBEDDINGS, {"model": "tiny", "input": "a b c"}, x_request_id="e")
        assert embedded.status_code == 200
        gateway.billed("e", "complete")
        gateway.post(COMPLETIONS, {"model": "tiny", "prompt": "a", "max_tokens": 5})
        assert "counted: every token was counted" in gateway.book("reconcile").stdout
