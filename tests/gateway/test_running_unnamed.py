"""Servers that tell no token ids: what they give is billed by the real gateway all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.hearing import COMPLETIONS
from tests.gateway.responding import FOR_EVER, Responding, frame, hang_up, started, streaming
from tests.gateway.running import Gateway

DONE = b"data: [DONE]\n\n"
ASKED = {"model": "tiny", "prompt": "Hello", "stream": True, "max_tokens": 100}


@pytest.mark.parametrize("end", [Gateway.kill, Gateway.term_twice, hang_up])
def test_what_was_delivered_without_ids_is_billed_however_it_is_cut(
    tmp_path: Path, end: Callable[[Gateway], None]
) -> None:
    with Responding([*[frame()] * 8, FOR_EVER]) as backend:
        with started(tmp_path, backend) as gateway:
            with streaming(gateway, COMPLETIONS, ASKED, "cut") as client:
                answer = client.getresponse()
                seen = b""
                while seen.count(b"data:") < 8:
                    seen += answer.read1()
                end(gateway)
            if end is hang_up:
                gateway.billed("cut", "partial")
            elif end is Gateway.term_twice:
                assert gateway.wait() == 0
        with started(tmp_path, backend) as gateway:  # books what a killed one left
            assert gateway.billed("cut", "partial").completion_tokens == 8


def test_who_never_tells_is_billed_by_the_events_and_told_of_once(tmp_path: Path) -> None:
    parts = [*[frame()] * 19, frame(finish="length"), DONE]
    with Responding(parts) as backend, started(tmp_path, backend) as gateway:
        for name in ("one", "two"):
            assert gateway.post(COMPLETIONS, ASKED, x_request_id=name).status_code == 200
            assert gateway.billed(name, "complete").completion_tokens == 20
        assert gateway.said.count("event=tokens_not_told backend=gpu-a") == 1
