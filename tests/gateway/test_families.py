"""The gateway's metrics: their names, and what is told before anything has happened."""

import re
import subprocess
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from demo import parts
from fleet.backend import Backend, Kind
from fleet.family import registry
from gateway.bill import End
from gateway.counts import Counts
from gateway.families import NAMES, REASONS, STATUSES, Scrape, metrics
from gateway.seal import STATUSES as OF_TOKENS
from gateway.standing import Standing, Traffic

ROOT = Path(__file__).parents[2]


def standing(name: str, *models: str) -> Standing:
    backend = Backend(name, f"http://{name}:8000", Kind.VLLM, wait=90.0, load_time=600.0)
    return Standing(backend, models=frozenset(models), reachable=True)


class Told(Collector):
    """One scrape, as a collector."""

    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return metrics(self._scrape)


@pytest.fixture
def counts() -> Counts:
    return Counts()


def scraped(counts: Counts, *in_flight: str) -> CollectorRegistry:
    scrape = Scrape(
        counts=counts,
        standings=(standing("gpu-a", "small"), standing("gpu-b", "small", "large")),
        in_flight=in_flight,
        ready=True,
        ledger_lag=0.25,
        now=1000.0,
    )
    return registry(Told(scrape))


def value(counts: Counts, name: str, **labels: str) -> float | None:
    return scraped(counts).get_sample_value(name, labels)


def test_names_and_labels_are_the_public_ones() -> None:
    assert dict(NAMES) == {
        "gateway_ready": (),
        "gateway_in_flight": (),
        "gateway_backend_in_flight": ("backend",),
        "gateway_model_in_flight": ("model",),
        "gateway_backend_traffic": ("backend", "traffic"),
        "gateway_requests_total": ("end",),
        "gateway_tokens_total": ("kind",),
        "gateway_resumes_total": ("backend",),
        "gateway_interrupted_total": ("reason",),
        "gateway_refused_total": ("status",),
        "gateway_errors_total": ("where",),
        "gateway_ledger_lag_seconds": (),
        "gateway_build_info": ("version",),
        "gateway_request_duration_seconds": (),
        "gateway_first_byte_seconds": (),
        "gateway_overhead_seconds": (),
    }


def test_promtool_has_nothing_against_the_page(counts: Counts) -> None:
    counts.asked(0.003)
    counts.ended(3.0)
    page = generate_latest(scraped(counts, "small"))
    checked = subprocess.run(
        [parts.find().promtool, "check", "metrics"],
        input=page,
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_every_name_is_on_the_page(counts: Counts) -> None:
    page = generate_latest(scraped(counts)).decode()
    for name in NAMES:
        assert f"# HELP {name} " in page


def test_what_can_be_counted_is_there_at_zero(counts: Counts) -> None:
    for end in End:
        assert value(counts, "gateway_requests_total", end=end) == 0
    for reason in ("broken", "refused", "gone", "cut", "error"):
        assert value(counts, "gateway_interrupted_total", reason=reason) == 0
    for kind in ("prompt", "output"):
        assert value(counts, "gateway_tokens_total", kind=kind) == 0
    for name in ("gpu-a", "gpu-b"):
        assert value(counts, "gateway_resumes_total", backend=name) == 0
        assert value(counts, "gateway_backend_in_flight", backend=name) == 0
    assert value(counts, "gateway_refused_total", status="503") == 0
    assert value(counts, "gateway_model_in_flight", model="large") == 0


def test_every_status_that_the_gateway_refuses_with_is_there_at_zero() -> None:
    sources = [f for f in (ROOT / "gateway").glob("*.py") if f.name != "admin.py"]
    said = {s for file in sources for s in re.findall(r"Refusal\((\d+)", file.read_text())}
    said |= set(re.findall(r'", (\d{3}), ', (ROOT / "gateway" / "choose.py").read_text()))
    of_parser = re.findall(r"HTTPStatus\.(\w+), ", (ROOT / "gateway" / "parse.py").read_text())
    said |= {str(HTTPStatus[name].value) for name in of_parser}
    assert said | {str(status) for status in OF_TOKENS.values()} == set(STATUSES)


def test_every_reason_is_documented_and_no_other_is() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    table = page.split("| reason of `gateway_interrupted_total` |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(REASONS)


def test_requests_in_flight_are_told_by_the_models_that_backends_list(counts: Counts) -> None:
    own = scraped(counts, "small", "small", "large", "a client's own word", "")
    assert own.get_sample_value("gateway_in_flight") == 5
    assert own.get_sample_value("gateway_model_in_flight", {"model": "small"}) == 2
    assert own.get_sample_value("gateway_model_in_flight", {"model": "large"}) == 1
    assert "own word" not in generate_latest(own).decode()


def test_the_traffic_is_one_hot(counts: Counts) -> None:
    told = {
        t: value(counts, "gateway_backend_traffic", backend="gpu-a", traffic=t) for t in Traffic
    }
    assert told == {"up": 1, "draining": 0, "drained": 0, "down": 0}


def test_tokens_are_those_that_are_charged(counts: Counts) -> None:
    counts.closed(End.COMPLETE, "complete", prompt_tokens=10, output_tokens=5)
    counts.closed(End.PARTIAL, "cut", prompt_tokens=100, output_tokens=50)
    counts.closed(End.FAILED, "cut", prompt_tokens=1000, output_tokens=500)
    counts.closed(End.REFUSED, "refused", prompt_tokens=1000, output_tokens=500)
    assert value(counts, "gateway_tokens_total", kind="prompt") == 110
    assert value(counts, "gateway_tokens_total", kind="output") == 55
    assert value(counts, "gateway_interrupted_total", reason="cut") == 2
    assert value(counts, "gateway_interrupted_total", reason="refused") == 1
