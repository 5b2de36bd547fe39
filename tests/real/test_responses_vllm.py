"""A real vLLM's /v1/responses: each event with text is a token, and the bill is its usage."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tally import EventsTally
from tests.gateway.running import Gateway, eventually
from tests.real.vllm_server import Server

RESPONSES = "/v1/responses"
TOKENS = 60


@pytest.fixture
def gateway(server: Server, tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tmp_path, {"gpu-a": server.url}) as opened:
        eventually(lambda: opened.status("/-/ready") == 200, "ready")
        yield opened


def asked(**more: object) -> dict[str, object]:
    limits = {"max_output_tokens": TOKENS, "temperature": 0}
    return {"model": "tiny", "input": "Hello", "stream": True, **limits, **more}


def usage(raw: bytes) -> dict[str, int]:
    """What its last event states."""
    datas = [line for line in raw.split(b"\n") if line.startswith(b"data: {")]
    found: dict[str, int] = json.loads(datas[-1].removeprefix(b"data: "))["response"]["usage"]
    return found


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="plain"),
        pytest.param(
            {"include": ["message.output_text.logprobs"], "top_logprobs": 5}, id="logprobs"
        ),
    ],
)
def test_the_bill_is_the_usage_and_a_prefix_is_never_billed_for_more(
    gateway: Gateway, more: dict[str, object]
) -> None:
    gateway.book("mark")
    answer = gateway.post(RESPONSES, asked(**more), x_request_id="one")
    told = usage(answer.content)
    row = gateway.billed("one", "complete")
    billed = row.prompt_tokens, row.completion_tokens
    assert billed == (told["input_tokens"], told["output_tokens"])
    assert "counted: every token was counted" in gateway.book("reconcile").stdout
    tally = EventsTally()
    tally.add(answer.content[: answer.content.index(b"event: response.completed")])
    assert 0 < tally.tokens <= told["output_tokens"]


def test_an_answer_in_the_background_is_refused(gateway: Gateway) -> None:
    assert gateway.post(RESPONSES, asked(background=True)).status_code == 400
