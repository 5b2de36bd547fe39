"""From a frozen server to its restart, through real Prometheus and Alertmanager."""

import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from demo.incident import silence
from demo.scene import Scene, look
from grafana.queries import queries
from tests.fleet import listeners
from tests.gateway.hearing import CHAT, listening, question
from tests.path.conftest import RunningPath, eventually

ROOT = Path(__file__).parents[2]


def scene(path: RunningPath) -> Scene:
    return look(path.stack, list(path.servers.values()))


def start_time(path: RunningPath, name: str) -> float | None:
    state = path.servers[name].state()
    return None if state is None else state["start_time"]


def decisions(path: RunningPath, backend: str) -> list[tuple[str, str]]:
    """What was decided about one backend, the latest first."""
    return [
        (decision["action"], decision["reason"])
        for decision in scene(path).decisions
        if decision["backend"] == backend
    ]


def freeze_under_load(path: RunningPath, name: str) -> None:
    path.servers[name].fault("batch", requests=3, max_tokens=30000)
    eventually(lambda: scene(path).state(name) == "busy")
    path.servers[name].fault("freeze")


def test_a_frozen_server_is_restarted_alone_and_sees_work_again(path: RunningPath) -> None:
    before = {name: start_time(path, name) for name in path.servers}
    freeze_under_load(path, "gpu-a")
    eventually(lambda: scene(path).attempt("gpu-a") == "recovered")
    after = {name: start_time(path, name) for name in path.servers}
    assert after.pop("gpu-a") != before.pop("gpu-a")
    assert after == before
    assert ("restart", "stuck") in decisions(path, "gpu-a")
    eventually(lambda: not scene(path).firing("VLLMEngineStuck", "gpu-a"), within=120)
    counted = path.stack.query('vllm_backend_restarts_total{backend="gpu-a"}')
    assert [series["value"][1] for series in counted] == ["1"]


@dataclass(frozen=True)
class Silenced:
    """gpu-b froze while on-call silenced it, and the silence ended: its start times on the way."""

    began: float
    before: float | None
    while_silenced: float | None
    after: float | None


@pytest.fixture(scope="module")
def silenced(path: RunningPath) -> Silenced:
    began = time.time()
    before = start_time(path, "gpu-b")
    silence_id = silence(path.stack, "gpu-b", "mine")
    freeze_under_load(path, "gpu-b")
    eventually(lambda: scene(path).firing("VLLMEngineStuck", "gpu-b"))
    # A notification may come although its alert is silenced: Alertmanager has been seen to.
    alert = next(
        alert
        for alert in requests.get(f"{path.stack.alertmanager}/api/v2/alerts", timeout=5).json()
        if alert["labels"].get("backend") == "gpu-b" and "remediate" in alert["labels"]
    )
    notify(path, alert)
    eventually(lambda: ("hold", "silenced") in decisions(path, "gpu-b"))
    while_silenced = start_time(path, "gpu-b")
    requests.delete(f"{path.stack.alertmanager}/api/v2/silence/{silence_id}", timeout=5)
    eventually(lambda: scene(path).attempt("gpu-b") == "recovered")
    return Silenced(began, before, while_silenced, start_time(path, "gpu-b"))


def test_a_silenced_server_is_left_alone_until_the_silence_ends(silenced: Silenced) -> None:
    assert silenced.while_silenced == silenced.before
    assert silenced.after not in (None, silenced.before)


def test_an_alert_on_a_server_that_works_restarts_nothing(path: RunningPath) -> None:
    before = start_time(path, "gpu-c")
    path.servers["gpu-c"].fault("batch", requests=3, max_tokens=30000)
    eventually(lambda: scene(path).state("gpu-c") == "busy")
    labels = {
        "alertname": "VLLMEngineStuck",
        "backend": "gpu-c",
        "engine": "0",
        "remediate": "restart",
    }
    requests.post(
        f"{path.stack.alertmanager}/api/v2/alerts", json=[{"labels": labels}], timeout=5
    ).raise_for_status()
    eventually(lambda: "progressing" in [reason for _, reason in decisions(path, "gpu-c")])
    assert start_time(path, "gpu-c") == before


def test_a_notification_without_the_token_is_refused(path: RunningPath) -> None:
    url = f"{path.stack.remediator}/api/alerts"
    for headers in ({}, {"Authorization": "Bearer guessed"}):
        answer = requests.post(url, json={}, headers=headers, timeout=5)
        assert answer.status_code == 401


# What is given up, while nothing is.
EMPTY_WITHOUT_AN_ESCALATION = "2 * max by (backend, reason) (remediator_escalated"


def scraped(path: RunningPath, expression: str) -> bool:
    """Whether an expression has a sample above 0 in Prometheus."""
    return any(float(series["value"][1]) > 0 for series in path.stack.query(expression))


@pytest.fixture(scope="module")
def served(path: RunningPath) -> float:
    """A stream that went on elsewhere, one whose client hung up, and a request that was refused.

    When that began, in Unix seconds.
    """
    began = time.time()
    gateway = path.gateway
    eventually(lambda: scraped(path, 'up{job="vllm-gateway"}'))
    with listening(gateway.url, CHAT, question(CHAT, 300)) as stream:
        stream.read(5)
        (row,) = gateway.in_flight()
        left = row["backend"]
        eventually(lambda: scraped(path, f'gateway_backend_in_flight{{backend="{left}"}}'))
        gateway.admin(f"backends/{left}/drain", "POST")
        assert stream.rest().done == 1
    gateway.admin(f"backends/{left}/undrain", "POST")
    with listening(gateway.url, CHAT, question(CHAT, 300)) as stream:
        stream.read(5)
    assert gateway.post(CHAT, question(CHAT) | {"model": "none"}).status_code == 404
    for told in (
        f'gateway_resumes_total{{backend="{left}"}}',
        'gateway_interrupted_total{reason="gone"}',
        'gateway_refused_total{status="404"}',
        'gateway_tokens_total{kind="output"}',
    ):
        eventually(partial(scraped, path, told))
    return began


def test_what_the_gateway_did_pages_nobody(path: RunningPath, served: float) -> None:
    assert served
    assert [a for a in path.stack.alerts() if "Gateway" in a["labels"]["alertname"]] == []


def test_every_query_of_the_dashboards_gets_data(
    path: RunningPath, silenced: Silenced, served: float
) -> None:
    assert served > 0
    wanted = {
        query.expr for query in queries() if not query.expr.startswith(EMPTY_WITHOUT_AN_ESCALATION)
    }
    assert len(wanted) == len({query.expr for query in queries()}) - 1

    def empty() -> set[str]:
        return {expr for expr in wanted if not path.stack.ever(expr, since=silenced.began)}

    # The newest counters need two scrapes before they have a rate.
    listeners.eventually(lambda: not empty(), within=30, every=0.2)
    assert empty() == set()


def test_the_demo_ends_as_it_ought_to() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = done.stdout.splitlines()[-1]
    assert result.startswith("RESULT restarts=2 false_restarts=0 silenced_restarts=0 detect_s=")


def notify(path: RunningPath, alert: dict[str, Any]) -> None:
    """Send the remediator a notification of one alert, as Alertmanager would."""
    body = {
        "version": "4",
        "groupKey": "{}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "remediator",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": path.stack.alertmanager,
        "alerts": [
            {
                "status": "firing",
                "labels": alert["labels"],
                "annotations": alert["annotations"],
                "startsAt": alert["startsAt"],
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "",
                "fingerprint": alert["fingerprint"],
            }
        ],
    }
    answer = requests.post(
        f"{path.stack.remediator}/api/alerts",
        json=body,
        headers={"Authorization": f"Bearer {path.stack.token_file.read_text().strip()}"},
        timeout=5,
    )
    assert answer.status_code == 200
