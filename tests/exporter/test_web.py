"""The exporter's pages."""

import pytest
from flask.testing import FlaskClient

from exporter.collector import FleetCollector
from exporter.memory import Memory
from exporter.standing import Standing
from exporter.web import create_app
from fleet.family import registry
from fleet.fetch import Failure, Trouble
from tests.exporter.fleets import SETTINGS, Clock, backend_at, snapshot
from tests.fleet.watching import recorded

BACKEND = backend_at("http://127.0.0.1:8000")


@pytest.fixture
def memory() -> Memory:
    return Memory()


STANDING = Standing(SETTINGS, ("gpu-a",))


def client(memory: Memory, standing: Standing = STANDING) -> FlaskClient:
    clock = Clock()
    own = registry(FleetCollector(memory, lambda: standing, monotonic=clock))
    return create_app(memory, own, lambda: standing, lambda: (), monotonic=clock).test_client()


def test_metrics_are_served_as_asked_for(memory: Memory) -> None:
    memory.put(snapshot(*recorded("busy-decode"), backend=BACKEND))
    plain = client(memory).get("/metrics")
    assert plain.content_type.startswith("text/plain")
    assert 'vllm_backend_up{backend="gpu-a"} 1.0' in plain.text
    modern = client(memory).get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert modern.text.endswith("# EOF\n")


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
