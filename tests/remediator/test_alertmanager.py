import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from demo.child import free_ports
from remediator.alertmanager import Alertmanager, in_trouble
from remediator.case import AlertState, Standing
from tests.remediator.making import at, incident

RECORDING = Path(__file__).parent / "recordings" / "alertmanager-0.25-api-silenced.json"


@contextmanager
def alertmanager(body: bytes, status: int = 200) -> Iterator[tuple[Alertmanager, list[str]]]:
    """An Alertmanager that answers everything with this body, below a path of its own."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Alertmanager(f"http://127.0.0.1:{server.server_address[1]}/am"), asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def one(**status: Any) -> dict[str, Any]:  # noqa: ANN401 -- fields by name
    return {
        "fingerprint": "7bdcfff547bc4d61",
        "startsAt": "2026-03-01T12:00:00.000Z",
        "labels": {"alertname": "VLLMEngineStuck", "backend": "gpu-a"},
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": [], **status},
    }


ANOTHER = {"fingerprint": "another", "labels": {"alertname": "VLLMExporterDown"}}


def standing(*alerts: object) -> Standing:
    with alertmanager(json.dumps(list(alerts)).encode()) as (asking, _):
        return asking.standing(incident())


def test_the_questions_ask_for_the_backend_and_for_all_in_trouble_in_all_states() -> None:
    with alertmanager(b"[]") as (asking, asked):
        asking.standing(incident())
    urls = [urlsplit(path) for path in asked]
    assert {url.path for url in urls} == {"/am/api/v2/alerts"}
    assert [parse_qs(url.query) for url in urls] == [
        {"filter": ['backend="gpu-a"']},
        {"filter": ['symptom=~".+"']},
    ]


STANDINGS = {
    "active": (one(), AlertState.ACTIVE),
    "silenced": (one(state="suppressed", silencedBy=["x"]), AlertState.SILENCED),
    "inhibited": (one(state="suppressed", inhibitedBy=["x"]), AlertState.INHIBITED),
    "both": (one(state="suppressed", silencedBy=["x"], inhibitedBy=["y"]), AlertState.SILENCED),
    "suppressed by what we do not know": (
        one(state="suppressed", mutedBy=["night"]),
        AlertState.SILENCED,
    ),
    "not yet processed": (one(state="unprocessed"), AlertState.UNKNOWN),
    "a state we do not know": (one(state="sunny"), AlertState.UNKNOWN),
}


@pytest.mark.parametrize(("alert", "state"), STANDINGS.values(), ids=list(STANDINGS))
def test_how_an_alert_stands(alert: dict[str, Any], state: AlertState) -> None:
    found = standing(ANOTHER, alert)
    assert found.state is state
    assert found.starts_at == at(0)


def test_who_is_in_trouble_is_whom_alerts_with_a_symptom_name() -> None:
    more = [{**one(), "labels": {"backend": name}} for name in ("gpu-b", "gpu-c", "gpu-b")]
    assert in_trouble([one(), ANOTHER, *more]) == {"gpu-a", "gpu-b", "gpu-c"}


def test_an_alert_that_is_not_there_is_gone() -> None:
    assert standing(ANOTHER).state is AlertState.GONE


def test_an_alert_that_began_at_another_time_says_since_when() -> None:
    later = {**one(), "startsAt": "2026-03-01T12:00:50.500Z"}
    assert standing(later).starts_at == at(50.5)


def test_what_a_real_alertmanager_answers() -> None:
    with alertmanager(RECORDING.read_bytes()) as (asking, _):
        found = asking.standing(incident(fingerprint="162595728793eb0c"))
    assert found.state is AlertState.SILENCED


WRONG: list[dict[str, Any]] = [
    {"startsAt": "x"},
    {"startsAt": 7},
    {"status": None},
    {"status": {}},
]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{}", b"[1]", b"[{}]", b"null", b'[{"fingerprint": "7bdcfff547bc4d61"}]']
    + [json.dumps([{**one(), **wrong}]).encode() for wrong in WRONG]
    + [
        json.dumps([one(), one()]).encode(),
        json.dumps([{**one(), "startsAt": "2026-03-01T12:00:00"}]).encode(),
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_understood_is_unknown(body: bytes) -> None:
    with alertmanager(body) as (asking, _):
        assert asking.standing(incident()).state is AlertState.UNKNOWN


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_an_error_is_unknown_and_never_not_silenced(status: int) -> None:
    with alertmanager(b"[]", status) as (asking, _):
        assert asking.standing(incident()).state is AlertState.UNKNOWN


def test_an_alertmanager_that_nobody_is_is_unknown() -> None:
    found = Alertmanager(f"http://127.0.0.1:{free_ports(1)[0]}").standing(incident())
    assert found.state is AlertState.UNKNOWN
    assert "refused" in found.why


def test_an_alertmanager_that_does_not_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remediator.alertmanager.TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert Alertmanager(url).standing(incident()).state is AlertState.UNKNOWN
