"""What the running gateway tells of what became of its requests."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.hearing import CHAT, hear, listening, prompt_length, question
from tests.gateway.running import Gateway, Simulated, eventually

EMBEDDINGS = "/v1/embeddings"
# Four seconds of a stream: it is not over before a busy machine has done something to it.
LONG = 400


class Metrics:
    """What a gateway has counted since this was made."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._before = self._page()

    def _page(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        page = requests.get(f"{self._gateway.url}/metrics", timeout=20.0).text
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    def since(self, name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return self._page()[key] - self._before[key]

    def interrupted(self) -> dict[str, float]:
        """The reasons of which there are more than before."""
        page = self._page()
        return {
            dict(labels)["reason"]: page[name, labels] - count
            for (name, labels), count in self._before.items()
            if name == "gateway_interrupted_total" and page[name, labels] > count
        }


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("one"), "gpu-a", steps_per_second=100) as server:
        yield server


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("two"), "gpu-b", steps_per_second=100) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, one: Simulated, two: Simulated
) -> Iterator[Gateway]:
    backends = {"gpu-a": one.url, "gpu-b": two.url}
    with Gateway(tmp_path_factory.mktemp("gateway"), backends) as gateway:
        yield gateway


def test_a_stream_that_goes_on_is_told_of_the_backend_it_left_and_its_tokens_once(
    gateway: Gateway,
) -> None:
    body = question(CHAT, LONG)
    metrics = Metrics(gateway)
    with listening(gateway.url, CHAT, body) as stream:
        stream.read(5)
        assert metrics.since("gateway_model_in_flight", model="tiny") == 1
        gateway.admin("backends/gpu-a/drain", "POST")
        stream.rest().is_one_whole_answer(CHAT, body)
    gateway.admin("backends/gpu-a/undrain", "POST")
    eventually(lambda: metrics.since("gateway_requests_total", end="complete") == 1, "it is over")
    assert metrics.since("gateway_resumes_total", backend="gpu-a") == 1
    assert metrics.since("gateway_resumes_total", backend="gpu-b") == 0
    assert metrics.since("gateway_tokens_total", kind="output") == LONG
    assert metrics.since("gateway_tokens_total", kind="prompt") == prompt_length(CHAT, body)
    # Only the first backend of a request is asked on our account.
    assert metrics.since("gateway_overhead_seconds_count") == 1
    assert 0 < metrics.since("gateway_overhead_seconds_sum") < 5
    assert metrics.interrupted() == {}


def test_a_stream_that_is_taken_up_has_its_prompt_counted_once(tmp_path: Path) -> None:
    body = question(CHAT, LONG)
    with (
        Simulated(tmp_path, "gpu-a", steps_per_second=100) as server,
        Gateway(tmp_path, {"gpu-a": server.url}) as gateway,
    ):
        metrics = Metrics(gateway)
        with listening(gateway.url, CHAT, body) as stream:
            stream.read(5)
            server.kill()
            goodbye = stream.rest().goodbye
        assert goodbye is not None
        gateway.billed(goodbye["requestId"], "partial")
        assert metrics.interrupted() == {"cut": 1}
        with Simulated(tmp_path, "again", port=int(server.url.rpartition(":")[2])):
            eventually(lambda: gateway.status("/-/ready") == 200, "ready again")
            heard = hear(gateway.url, CHAT, body, x_resume_token=goodbye["resumeToken"])
            assert heard.done == 1
            row = gateway.billed(goodbye["requestId"], "complete")
            assert row.completion_tokens == LONG
            assert metrics.since("gateway_tokens_total", kind="output") == LONG
            assert metrics.since("gateway_tokens_total", kind="prompt") == row.prompt_tokens


def test_what_is_relayed_as_it_is_is_interrupted_for_the_reason_that_it_was(
    gateway: Gateway, one: Simulated
) -> None:
    del one
    metrics = Metrics(gateway)
    assert gateway.post(EMBEDDINGS, {"model": "tiny", "input": "a b"}).status_code == 200
    assert metrics.interrupted() == {}
    assert gateway.post(EMBEDDINGS, {"model": "tiny"}).status_code == 400
    assert metrics.interrupted() == {"refused": 1}


def test_a_client_that_hangs_up_before_a_relayed_answer_is_gone(tmp_path: Path) -> None:
    with (
        Simulated(tmp_path, "gpu-a") as server,
        Gateway(tmp_path, {"gpu-a": server.url}) as gateway,
    ):
        metrics = Metrics(gateway)
        server.signal(signal.SIGSTOP)
        with pytest.raises(requests.ReadTimeout):
            requests.post(
                gateway.url + EMBEDDINGS, json={"model": "tiny", "input": "a"}, timeout=0.5
            )
        eventually(lambda: metrics.interrupted() == {"gone": 1}, "it is gone")


def test_a_stream_that_nobody_can_go_on_with_is_cut(tmp_path: Path) -> None:
    with (
        Simulated(tmp_path, "gpu-a", steps_per_second=50) as server,
        Gateway(tmp_path, {"gpu-a": server.url}) as gateway,
    ):
        metrics = Metrics(gateway)
        with listening(gateway.url, CHAT, question(CHAT, 500), x_resume="never") as stream:
            stream.read(5)
            server.kill()
            assert stream.rest().goodbye is not None
        assert metrics.interrupted() == {"cut": 1}
        eventually(lambda: gateway.post(CHAT, question(CHAT)).status_code == 503, "it is down")
        assert metrics.since("gateway_refused_total", status="503") >= 1
