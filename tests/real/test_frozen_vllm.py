"""The whole path on a real vLLM: a long prefill is left alone, a frozen engine is restarted."""

import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import requests

from demo import parts
from demo.stack import Pace, Stack
from tests.real.vllm_server import Server, freeze

WAIT = 12.0
PROMPT_TOKENS = 30000
ROOT = Path(__file__).parents[2]


def say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {sentence}", flush=True)  # noqa: T201 -- what it saw, for the reader


@pytest.fixture(scope="module")
def stack(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    command = [sys.executable, "-m", "tests.real.vllm_server", "restart"]
    command += ["--dir", str(server.folder), "--port", str(server.port), "--dev", "--"]
    command += server.flags
    fleet = {
        "defaults": {"wait": f"{WAIT:.0f}s", "load_time": "4m"},
        "backends": [
            {
                "name": "gpu-a",
                "url": server.url,
                "restart": {"command": command, "timeout": "60s"},
            }
        ],
        "exporter": {"interval": "2s", "timeout": "2s"},
        "remediator": {
            "mode": "act",
            "confirm_for": "4s",
            "answer_within": "5s",
            "recheck_every": "2s",
            "cool_down": "5s",
        },
    }
    with Stack(tmp_path_factory.mktemp("stack"), parts.find(), fleet, Pace()) as stack:
        yield stack


def started(server: Server) -> str:
    page = requests.get(f"{server.url}/metrics", timeout=30).text
    return next(line for line in page.splitlines() if line.startswith("process_start_time"))


def completions(server: Server) -> float:
    """How many completions the server has answered, by its own count."""
    page = requests.get(f"{server.url}/metrics", timeout=30).text
    counted = re.findall(
        r'^http_requests_total\{handler="/v1/completions".*\} (\S+)$', page, re.MULTILINE
    )
    return sum(map(float, counted))


def complete(server: Server, prompt: list[int] | str, max_tokens: int) -> threading.Thread:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}

    def post() -> None:
        try:
            requests.post(f"{server.url}/v1/completions", json=body, timeout=300)
        except requests.RequestException as error:
            say(f"a request ended with {type(error).__name__}")

    thread = threading.Thread(target=post, daemon=True)
    thread.start()
    return thread


def firing(stack: Stack) -> set[str]:
    return {a["labels"]["alertname"] for a in stack.alerts() if a["state"] == "firing"}


def attempts(stack: Stack) -> list[str]:
    return [a["state"] for a in requests.get(f"{stack.remediator}/api/attempts", timeout=30).json()]


def test_a_long_prefill_alone_is_not_restarted(server: Server, stack: Stack) -> None:
    before, answered = started(server), completions(server)
    random = Random(time.time_ns())
    prompt = [random.randint(10, 289) for _ in range(PROMPT_TOKENS)]
    began = time.monotonic()
    request = complete(server, prompt, 1)
    while request.is_alive():
        assert "VLLMEngineStuck" not in firing(stack)
        time.sleep(1.0)
    lasted = time.monotonic() - began
    say(f"a prompt of {PROMPT_TOKENS} tokens was read for {lasted:.0f} s; not restarted")
    assert lasted >= 2 * WAIT
    assert completions(server) == answered + 1
    assert started(server) == before
    assert attempts(stack) == []


def test_a_frozen_engine_is_restarted_and_answers(server: Server, stack: Stack) -> None:
    before = started(server)
    for i in range(3):
        complete(server, f"{i} once", 20000)
    deadline = time.monotonic() + 60
    while not stack.query('vllm_engine_requests_running{backend="gpu-a"} == 3'):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    busy = time.monotonic()
    while time.monotonic() < busy + 2 * WAIT:
        assert firing(stack).isdisjoint({"VLLMEngineStuck", "VLLMEngineQuiet"})
        time.sleep(1.0)
    assert attempts(stack) == []
    say(f"three streams were busy for {2 * WAIT:.0f} s; not restarted; the engine is frozen")
    freeze(server)
    frozen = time.monotonic()
    while "VLLMEngineStuck" not in firing(stack):
        assert time.monotonic() < frozen + 120
        time.sleep(0.5)
    say(f"VLLMEngineStuck fires after {time.monotonic() - frozen:.0f} s")
    while "recovered" not in attempts(stack):
        assert time.monotonic() < frozen + 300, attempts(stack)
        time.sleep(1.0)
    say(f"restarted and answering after {time.monotonic() - frozen:.0f} s")
    assert started(server) != before
    assert attempts(stack) == ["recovered"]
