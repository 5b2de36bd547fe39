"""The exporter's pages."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from exporter.collector import FleetCollector
from exporter.memory import Memory
from exporter.standing import Standing
from exporter.web import create_app
from fleet.family import registry
from fleet.fetch import Failure, Trouble
from tests.exporter.fleets import SETTINGS, Clock, backend_at, snapshot
from tests.exporter.scenes import DAY, everything, working
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


def backends(app: FlaskClient, query: str = "") -> list[dict[str, Any]]:
    """The rows of /api/backends."""
    rows: list[dict[str, Any]] = json.loads(app.get(f"/api/backends{query}").data)
    return rows


def test_metrics_are_served_as_asked_for(memory: Memory) -> None:
    memory.put(snapshot(*recorded("busy-decode"), backend=BACKEND))
    plain = client(memory).get("/metrics")
    assert plain.content_type.startswith("text/plain")
    assert 'vllm_backend_up{backend="gpu-a"} 1.0' in plain.text
    modern = client(memory).get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert modern.text.endswith("# EOF\n")


def test_backends_as_json(memory: Memory) -> None:
    memory.put(snapshot(*recorded("queue-full"), backend=BACKEND))
    (one,) = backends(client(memory))
    assert (one["backend"], one["state"]) == ("gpu-a", "busy")
    assert one["why"].startswith("busy: 4 running, 6 waiting")
    assert one["engines"][0]["requests_waiting"] == 6


def test_only_the_backends_that_are_asked_for_are_given(memory: Memory) -> None:
    everything(memory)
    app = client(memory)
    some = backends(app, "?state=down&state=stuck")
    assert {one["state"] for one in some} == {"down", "stuck"}
    assert [one["backend"] for one in backends(app, "?q=ROUT")] == ["router"]


@pytest.mark.parametrize("path", ["/", "/api/backends"])
def test_a_state_that_does_not_exist_is_one_sentence(path: str, memory: Memory) -> None:
    answer = client(memory).get(f"{path}?state=<b>")
    assert (answer.status_code, answer.content_type) == (400, "text/plain; charset=utf-8")
    assert answer.text.startswith("state: '<b>' is none of idle, busy, ")


def test_a_browser_may_run_and_load_nothing_but_what_the_page_brings(memory: Memory) -> None:
    answer = client(memory).get("/")
    policy = answer.headers["Content-Security-Policy"]
    for element in ("style", "script"):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]* (?:on\w+|style)=", answer.text)


@pytest.mark.parametrize("path", ["/", "/api/backends", "/metrics", "/-/healthy"])
def test_a_browser_does_not_guess_what_an_answer_is(path: str, memory: Memory) -> None:
    assert client(memory).get(path).headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_says_the_same_as_the_json(memory: Memory) -> None:
    everything(memory)
    app = client(memory)
    page, found = app.get("/").text, backends(app)
    assert re.findall(r'<li id="([^"]+)" class="backend" data-state="(\w+)"', page) == [
        (one["backend"], one["state"]) for one in found
    ]


def test_two_thousand_backends_are_a_page_that_can_be_sent(memory: Memory) -> None:
    looks = working(DAY * 4)[:60]
    one = snapshot(*looks, backend=BACKEND)
    for i in range(2000):
        memory.put(replace(one, backend=replace(BACKEND, name=f"gpu-{i}")))
    page = client(memory).get("/")
    assert page.text.count("<svg") > 2000
    assert len(page.data) < 5_000_000


def test_the_page_shows_why_and_escapes_what_a_server_said(memory: Memory) -> None:
    hostile = Failure(Trouble.UNREADABLE, "it said <script>alert(1)</script>")
    memory.put(snapshot(hostile, backend=BACKEND))
    text = client(memory).get("/").text
    assert "<script>alert" not in text
    assert "it said &lt;script&gt;" in text


def test_the_page_before_anything_was_read(memory: Memory) -> None:
    assert "No backend has been read yet." in client(memory).get("/").text
