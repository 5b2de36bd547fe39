"""Who is told what, by the shipped routes."""

import subprocess

import pytest
import yaml

from demo import parts
from tests.rules.shipped import ALERTS, ROOT, RULES, Alert

REMEDIATOR = "remediator"
PERSON = "oncall"
NOBODY = "nobody"

TABLE = {
    "VLLMEngineStuck": REMEDIATOR,
    "VLLMEngineDead": REMEDIATOR,
    "VLLMEngineStillStuck": PERSON,
    "VLLMEngineQuiet": NOBODY,
    "VLLMEngineStarved": PERSON,
    "VLLMBackendDown": PERSON,
    "VLLMBackendUnresponsive": PERSON,
    "VLLMBackendUnjudged": PERSON,
    "VLLMBackendRestarted": NOBODY,
    "VLLMBackendRestartLoop": PERSON,
    "VLLMForeignRestart": NOBODY,
    "VLLMForeignRestartRepeated": PERSON,
    "VLLMExporterDown": PERSON,
    "VLLMExporterStale": PERSON,
    "VLLMExporterReloadFailed": PERSON,
    "VLLMExporterDiscoveryFailing": PERSON,
    "VLLMRemediatorDown": PERSON,
    "VLLMRemediationHeld": PERSON,
    "VLLMRemediationFailed": PERSON,
    "VLLMRemediated": NOBODY,
    "VLLMRemediationStorm": PERSON,
    "VLLMGatewayDown": PERSON,
    "VLLMGatewayLedgerBehind": PERSON,
    "VLLMGatewayRefusing": PERSON,
    "VLLMGatewayStreamsCut": PERSON,
    "VLLMGatewayResumeStorm": PERSON,
    "VLLMDirectEngineStuck": PERSON,
    "VLLMDirectEngineStillStuck": PERSON,
    "VLLMDirectEngineQuiet": NOBODY,
    "VLLMDirectEngineStarved": PERSON,
    "VLLMDirectEngineUnjudged": PERSON,
}


def receivers(**labels: str) -> str:
    """The receivers of an alert, in the order in which they are told."""
    done = subprocess.run(
        [
            parts.find().amtool,
            "config",
            "routes",
            "test",
            f"--config.file={RULES / 'alertmanager.yml'}",
            *(f"{name}={value}" for name, value in labels.items()),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_alert_reaches_whom_it_is_for(alert: Alert) -> None:
    labels = {**alert.labels, "backend": "gpu-a", "alertname": alert.name}
    assert receivers(**labels) == TABLE[alert.name]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(
            {"alertname": "Somebodys", "remediate": "restart", "severity": "info"},
            REMEDIATOR,
            id="the label asks, whatever the name and the severity",
        ),
        pytest.param(
            {"alertname": "VLLMEngineStuck", "severity": "critical"},
            PERSON,
            id="the name alone asks for nothing",
        ),
        pytest.param(
            {"alertname": "VLLMEngineStuck", "remediate": "reboot", "severity": "critical"},
            PERSON,
            id="another remedy is a person's",
        ),
        pytest.param(
            {"alertname": "VLLMDirectEngineStuck", "remediate": "restart", "severity": "critical"},
            REMEDIATOR,
            id="the label added on the way out of Prometheus asks as well",
        ),
        pytest.param({"alertname": "Watchdog"}, PERSON, id="what nobody thought of is told"),
    ],
)
def test_only_the_label_decides(labels: dict[str, str], expected: str) -> None:
    assert receivers(**labels) == expected


@pytest.mark.parametrize(
    "alert", [a for a in ALERTS if "Gateway" in a.name], ids=lambda alert: alert.name
)
def test_what_clients_see_at_the_gateway_restarts_nothing(alert: Alert) -> None:
    """The remediator neither hears of it nor counts it as a server in trouble."""
    assert set(alert.labels) == {"severity"}
    assert alert.labels["severity"] in {"warning", "critical"}


def test_the_webhook_is_where_the_remediator_listens_and_bears_its_token() -> None:
    config = yaml.safe_load((RULES / "alertmanager.yml").read_text())
    (webhook,) = next(r for r in config["receivers"] if r["name"] == "remediator")[
        "webhook_configs"
    ]
    assert webhook["url"] == "http://remediator:9110/api/alerts"
    assert webhook["send_resolved"] is True
    assert webhook["max_alerts"] == 0
    assert webhook["http_config"]["authorization"]["type"] == "Bearer"
    assert webhook["http_config"]["follow_redirects"] is False
    assert '@app.post("/api/alerts")' in (ROOT / "remediator" / "webhook.py").read_text()


def test_inhibition_never_hides_an_alert_from_the_remediator() -> None:
    config = yaml.safe_load((RULES / "alertmanager.yml").read_text())
    asking = {alert.name for alert in ALERTS if "remediate" in alert.labels}
    targets = " ".join(m for rule in config["inhibit_rules"] for m in rule["target_matchers"])
    assert not any(name in targets for name in asking)
