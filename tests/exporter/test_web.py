"""The exporter's pages."""

import threading

import pytest
from flask.testing import FlaskClient

from exporter.collector import FleetCollector
from exporter.memory import Memory
from exporter.web import create_app
from fleet.family import registry
from fleet.fetch import Failure, Trouble
from tests.exporter.fleets import SETTINGS, Clock, backend_at, snapshot
from tests.fleet.watching import recorded

BACKEND = backend_at("http://127.0.0.1:8000")


@pytest.fixture
def memory() -> Memory:
    return Memory()


def client(memory: Memory, pollers: tuple[threading.Thread, ...] = ()) -> FlaskClient:
    clock = Clock()
    own = registry(FleetCollector(memory, SETTINGS, 1, monotonic=clock))
    return create_app(memory, own, 1, pollers, monotonic=clock).test_client()


def test_metrics_are_served_as_asked_for(memory: Memory) -> None:
    memory.put(snapshot(*recorded("busy-decode"), backend=BACKEND))
    plain = client(memory).get("/metrics")
    assert plain.content_type.startswith("text/plain")
    assert 'vllm_backend_up{backend="gpu-a"} 1.0' in plain.text
    modern = client(memory).get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert modern.text.endswith("# EOF\n")


def test_ready_is_when_every_backend_was_polled(memory: Memory) -> None:
    assert client(memory).get("/-/ready").status_code == 503
    memory.put(snapshot(*recorded("idle"), backend=BACKEND))
    assert client(memory).get("/-/ready").status_code == 200


def test_healthy_is_as_long_as_every_poller_runs(memory: Memory) -> None:
    done = threading.Event()
    alive = threading.Thread(target=done.wait, name="poll-gpu-a")
    alive.start()
    assert client(memory, (alive,)).get("/-/healthy").status_code == 200
    done.set()
    alive.join()
    answer = client(memory, (alive,)).get("/-/healthy")
    assert (answer.status_code, answer.text) == (503, "not running any more: poll-gpu-a\n")


def test_backends_as_json(memory: Memory) -> None:
    memory.put(snapshot(*recorded("queue-full"), backend=BACKEND))
    (one,) = client(memory).get("/api/backends").json or ()
    assert (one["backend"], one["state"]) == ("gpu-a", "busy")
    assert one["why"].startswith("busy: 4 running, 6 waiting")
    assert one["engines"][0]["requests_waiting"] == 6


def test_the_page_shows_why_and_escapes_what_a_server_said(memory: Memory) -> None:
    hostile = Failure(Trouble.UNREADABLE, "it said <script>alert(1)</script>")
    memory.put(snapshot(hostile, backend=BACKEND))
    text = client(memory).get("/").text
    assert "<script>" not in text
    assert "it said &lt;script&gt;" in text


def test_the_page_before_anything_was_read(memory: Memory) -> None:
    assert "No backend has been read yet." in client(memory).get("/").text
