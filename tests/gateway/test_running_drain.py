"""Backends are drained at the running gateway: by its admin API, as the remediator does, and by
its command line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.gateway.hearing import CHAT, COMPLETIONS, hear, listening, question
from tests.gateway.running import QUICKLY, ROOT, SECONDS, SLOWLY, Gateway, Simulated, eventually


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("one"), "gpu-a") as server:
        yield server


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("two"), "gpu-b") as server:
        yield server


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, one: Simulated, two: Simulated
) -> Iterator[Gateway]:
    backends = {"gpu-a": one.url, "gpu-b": two.url}
    with Gateway(tmp_path_factory.mktemp("gateway"), backends) as gateway:
        yield gateway


@pytest.fixture
def gateway(running: Gateway, one: Simulated, two: Simulated) -> Gateway:
    """Both backends are up, the first one is slow."""
    one.pace(SLOWLY)
    two.pace(QUICKLY)
    for name in ("gpu-a", "gpu-b"):
        running.admin(f"backends/{name}/undrain", "POST")
        eventually(lambda name=name: running.admin(f"backends/{name}")["state"] == "up", name)
    return running


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_drained_backends_streams_go_on_elsewhere_at_once(
    gateway: Gateway, one: Simulated, two: Simulated, path: str
) -> None:
    body = question(path, 300)
    two.pace(SLOWLY)
    with listening(gateway.url, path, body) as stream:
        stream.read(10)
        assert gateway.admin("backends/gpu-a")["in_flight"] == 1
        before = one.asked(path)
        said = gateway.admin("backends/gpu-a/drain", "POST")
        assert said["backend"] == "gpu-a"
        assert said["state"] in ("draining", "drained")
        eventually(lambda: gateway.admin("backends/gpu-a")["state"] == "drained", "it is empty")
        eventually(lambda: one.in_hand == 0, "it works on nothing")
        assert two.in_hand == 1
        rows = gateway.in_flight()
        assert [(row["backend"], row["legs"]) for row in rows] == [("gpu-b", 2)]
        two.pace(QUICKLY)
        for _ in range(3):
            hear(gateway.url, path, question(path)).is_one_whole_answer(path, question(path))
        assert one.asked(path) == before
        stream.rest().is_one_whole_answer(path, body)
    row = gateway.billed(stream.heard.headers["x-request-id"], "complete")
    assert row.completion_tokens == 300
    one.pace(QUICKLY)
    assert gateway.admin("backends/gpu-a/undrain", "POST")["state"] == "up"
    hear(gateway.url, path, question(path)).is_one_whole_answer(path, question(path))
    assert one.asked(path) == before + 1


def test_what_cannot_go_on_is_left_to_end_where_it_is(gateway: Gateway, one: Simulated) -> None:
    body = question(CHAT, 100)
    with listening(gateway.url, CHAT, body, x_resume="never") as stream:
        stream.read(5)
        assert gateway.admin("backends/gpu-a/drain", "POST")["state"] == "draining"
        one.pace(QUICKLY)
        stream.rest().is_one_whole_answer(CHAT, body)
    eventually(lambda: gateway.admin("backends/gpu-a")["state"] == "drained", "it is empty")
    assert one.in_hand == 0


def test_what_waits_for_a_whole_answer_is_moved_too(gateway: Gateway, two: Simulated) -> None:
    body = question(CHAT, 200) | {"stream": False}
    argv = [sys.executable, "-c", "import requests, sys; print(requests.post(sys.argv[1], "]
    argv[2] += "data=sys.argv[2], timeout=60).json()['choices'][0]['message']['content'])"
    before = two.asked(CHAT)
    with subprocess.Popen(
        [*argv, gateway.url + CHAT, json.dumps(body)], stdout=subprocess.PIPE, text=True
    ) as asking:
        eventually(lambda: len(gateway.in_flight()) == 1, "it is in flight")
        gateway.admin("backends/gpu-a/drain", "POST")
        said, _ = asking.communicate(timeout=SECONDS)
    assert two.asked(CHAT) == before + 1
    assert said.removesuffix("\n") == hear(two.url, CHAT, question(CHAT, 200)).text


def test_the_last_backend_drained_keeps_its_streams_until_there_is_another(
    gateway: Gateway, one: Simulated
) -> None:
    gateway.admin("backends/gpu-b/drain", "POST")
    with listening(gateway.url, CHAT, question(CHAT, 300)) as stream:
        stream.read(10)
        gateway.admin("backends/gpu-a/drain", "POST")
        stream.read(20)
        gateway.admin("backends/gpu-b/undrain", "POST")
        heard = stream.rest()
    assert not heard.goodbye
    one.pace(QUICKLY)
    gateway.admin("backends/gpu-a/undrain", "POST")
    assert heard.text == hear(gateway.url, CHAT, question(CHAT, 300)).text
    assert one.in_hand == 0
    row = gateway.billed(heard.headers["x-request-id"], "complete")
    assert row.completion_tokens == 300


def test_the_command_drains_and_waits(gateway: Gateway, one: Simulated) -> None:
    with listening(gateway.url, CHAT, question(CHAT, 2000)) as stream:
        stream.read(5)
        listed = gateway.command("inflight", "--json")
        assert listed.returncode == 0, listed.stderr
        assert stream.heard.headers["x-request-id"] in listed.stdout
        shown = gateway.command("inflight")
        assert "gpu-a" in shown.stdout
        drained = gateway.command("drain", "gpu-a", "--wait", "--timeout", "50s")
        assert drained.returncode == 0, drained.stderr
        assert drained.stdout.strip().endswith("gpu-a: drained, 0 in flight")
        assert one.in_hand == 0
        stream.rest().is_one_whole_answer(CHAT, question(CHAT, 2000))
    undrained = gateway.command("undrain", "gpu-a")
    assert undrained.returncode == 0
    assert "up" in undrained.stdout


def test_the_command_says_what_is_still_there(gateway: Gateway) -> None:
    with listening(gateway.url, CHAT, question(CHAT, 1500), x_resume="never") as stream:
        stream.read(5)
        drained = gateway.command("drain", "gpu-a", "--wait", "--timeout", "1s")
        assert drained.returncode != 0
        assert "1 in flight" in drained.stdout


def test_an_unknown_backend_and_a_wrong_token_are_said(gateway: Gateway, tmp_path: Path) -> None:
    unknown = gateway.command("drain", "gpu-z")
    assert unknown.returncode != 0
    assert "'gpu-z' is no backend of this gateway, which has: gpu-a, gpu-b" in unknown.stderr
    (tmp_path / "wrong").write_text("wrong")
    wrong = gateway.command("drain", "gpu-a", "--token-file", str(tmp_path / "wrong"))
    assert wrong.returncode != 0
    assert "token" in wrong.stderr
    url = f"{gateway.url}/admin/backends/gpu-a"
    assert requests.get(url, timeout=SECONDS).status_code == 401
    assert gateway.admin("backends/gpu-a")["state"] == "up"


def test_without_a_gateway_the_command_says_so(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("any")
    argv = [sys.executable, "-m", "gateway", "inflight", "--url", "http://127.0.0.1:9"]
    argv += ["--token-file", str(tmp_path / "token")]
    said = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert said.returncode != 0
    assert "http://127.0.0.1:9 cannot be reached" in said.stderr
