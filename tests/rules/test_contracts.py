"""What the rules promise to the programs, to Alertmanager, to people, and the other way round."""

import re
from collections.abc import Iterator

import pytest
import yaml

import exporter.families
import fleet.reading
import gateway.families
import remediator.families
from fleet.state import State
from gateway.standing import Traffic
from grafana.promql import grouping_labels, selectors
from remediator.decision import RECORDED, Action
from remediator.incident import AttemptState
from remediator.notification import Symptom
from tests.rules.shipped import (
    ALERTS,
    DIRECT_NAMES,
    EXPRESSIONS,
    RECORDINGS,
    RUNBOOK,
    TEST_FILES,
    Alert,
    Check,
)

BASE = "https://github.com/vllm-lifeguard/vllm-lifeguard/blob/main/docs/runbook.md#"
PROMETHEUS = {
    "up": ("job",),
    "ALERTS": ("alertname", "alertstate", "remediate", "backend", "job", "instance", "engine"),
    "ALERTS_FOR_STATE": ("alertname",),
}
# vLLM's own, as far as the rules choose by their labels; a scrape adds the job, the instance and,
# where somebody sets it, the backend.
SCRAPED = ("job", "instance", "backend")
VLLM = {
    **dict.fromkeys(fleet.reading.NAMES, ("engine", "model_name", *SCRAPED)),
    fleet.reading.WAITING_BY_REASON: ("engine", "model_name", "reason", *SCRAPED),
    fleet.reading.SLEEP_STATE: ("engine", "model_name", "sleep_state", *SCRAPED),
    "vllm:request_success_total": ("engine", "model_name", "finished_reason", *SCRAPED),
    fleet.reading.START_TIME: SCRAPED,
    # Chosen by a pattern.
    "__name__": (),
}
# A histogram is asked for its count, sum and buckets.
HISTOGRAMS = {
    f"{name}{end}": labels
    for name in gateway.families.HISTOGRAMS
    for end, labels in (("_count", ()), ("_sum", ()), ("_bucket", ("le",)))
}
NAMES = {
    **exporter.families.NAMES,
    **remediator.families.NAMES,
    **gateway.families.NAMES,
    **HISTOGRAMS,
    **PROMETHEUS,
    **VLLM,
}
HEADINGS = re.findall(r"^## (.+)$", RUNBOOK.read_text(), re.MULTILINE)

CONTRACT = {
    "VLLMEngineStuck",
    "VLLMEngineDead",
    "VLLMEngineStillStuck",
    "VLLMEngineQuiet",
    "VLLMEngineStarved",
    "VLLMBackendDown",
    "VLLMBackendUnresponsive",
    "VLLMBackendUnjudged",
    "VLLMBackendRestarted",
    "VLLMBackendRestartLoop",
    "VLLMForeignRestart",
    "VLLMForeignRestartRepeated",
    "VLLMExporterDown",
    "VLLMExporterStale",
    "VLLMExporterReloadFailed",
    "VLLMExporterDiscoveryFailing",
    "VLLMRemediatorDown",
    "VLLMRemediationHeld",
    "VLLMRemediationFailed",
    "VLLMRemediated",
    "VLLMRemediationStorm",
    "VLLMGatewayDown",
    "VLLMGatewayLedgerBehind",
    "VLLMGatewayRefusing",
    "VLLMGatewayStreamsCut",
    "VLLMGatewayResumeStorm",
    "VLLMDirectEngineStuck",
    "VLLMDirectEngineStillStuck",
    "VLLMDirectEngineQuiet",
    "VLLMDirectEngineStarved",
    "VLLMDirectEngineUnjudged",
}

LEVELS = {
    "engine": frozenset({"backend", "engine"}),
    "backend": frozenset({"backend"}),
    "backend_state": frozenset({"backend", "state"}),
    "instance": frozenset({"backend", "job", "instance"}),
    "instance_engine": frozenset({"backend", "job", "instance", "engine"}),
}

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
each_expression = pytest.mark.parametrize(
    ("name", "expr"), EXPRESSIONS.items(), ids=EXPRESSIONS.keys()
)
each_expression_on_exporters = pytest.mark.parametrize(
    ("name", "expr"),
    [(name, expr) for name, expr in EXPRESSIONS.items() if name not in DIRECT_NAMES],
)


def recorded_labels(name: str) -> frozenset[str]:
    """The labels of a recorded series: its name begins with them, level:metric:operation."""
    return LEVELS[name.split(":", maxsplit=1)[0]]


def checks() -> Iterator[Check]:
    """Every moment at which a promtool test says of an alert that it fires or does not."""
    for file in TEST_FILES:
        for case in yaml.safe_load(file.read_text())["tests"]:
            for check in case.get("alert_rule_test", ()):
                yield Check(check["alertname"], bool(check.get("exp_alerts")))
            for check in case.get("promql_expr_test", ()):
                asked = re.match(r'ALERTS\{.*?alertname="(\w+)"', check["expr"])
                told = re.findall(r'alertname="(\w+)"', str(check["exp_samples"]))
                if asked and not told:
                    yield Check(asked[1], fires=False)
                if check["expr"] == 'ALERTS{alertstate="firing"}':
                    yield from (Check(a.name, a.name in told) for a in ALERTS)


CHECKS = tuple(checks())


def test_the_alerts_are_those_of_the_contract() -> None:
    assert {alert.name for alert in ALERTS} == CONTRACT
    assert len(ALERTS) == len(CONTRACT)


@each_alert
def test_an_alert_carries_only_labels_that_never_change(alert: Alert) -> None:
    assert alert.labels["severity"] in {"info", "warning", "critical"}
    assert set(alert.labels) <= {"severity", "remediate", "symptom"}
    assert not any("{{" in value for value in alert.labels.values())


@each_alert
def test_what_asks_for_a_restart_is_critical(alert: Alert) -> None:
    if "remediate" in alert.labels:
        assert alert.labels["remediate"] == "restart"
        assert alert.labels["severity"] == "critical"


def test_only_what_is_proven_asks_for_a_restart() -> None:
    asking = {
        alert.name: alert.labels.get("symptom") for alert in ALERTS if "remediate" in alert.labels
    }
    assert asking == {"VLLMEngineStuck": Symptom.STUCK, "VLLMEngineDead": Symptom.DEAD}


def test_the_alerts_by_which_a_server_is_in_trouble_say_which() -> None:
    """The remediator counts the servers with any of these; no other alert is one of them."""
    told = {alert.name: alert.labels["symptom"] for alert in ALERTS if "symptom" in alert.labels}
    assert told == {
        "VLLMEngineStuck": "stuck",
        "VLLMEngineDead": "dead",
        "VLLMEngineQuiet": "quiet",
        "VLLMBackendDown": "down",
        "VLLMBackendUnresponsive": "unresponsive",
    }


@each_alert
def test_an_alert_says_what_where_and_how_to_go_on(alert: Alert) -> None:
    assert set(alert.annotations) == {"summary", "description", "runbook_url"}
    assert alert.annotations["runbook_url"] == BASE + alert.name.lower()
    assert alert.annotations["description"].endswith(".")


@each_alert
def test_an_alert_has_a_heading_in_the_runbook(alert: Alert) -> None:
    assert HEADINGS.count(alert.name) == 1


def test_the_runbook_has_no_alert_that_is_no_more() -> None:
    assert {heading for heading in HEADINGS if heading.startswith("VLLM")} == CONTRACT


@each_alert
def test_an_alert_is_tested_where_it_fires_and_where_it_does_not(alert: Alert) -> None:
    assert {check.fires for check in CHECKS if check.alert == alert.name} == {True, False}


@each_alert
def test_the_text_of_an_alert_is_tested(alert: Alert) -> None:
    rendered = [
        expected
        for file in TEST_FILES
        for case in yaml.safe_load(file.read_text())["tests"]
        for check in case.get("alert_rule_test", ())
        if check["alertname"] == alert.name
        for expected in check["exp_alerts"]
    ]
    assert rendered


@each_expression
def test_an_expression_uses_metrics_and_labels_that_exist(name: str, expr: str) -> None:
    recorded = {rule.name: recorded_labels(rule.name) for rule in RECORDINGS}
    grouped = set(grouping_labels(expr))
    known: set[str] = set()
    for selector in selectors(expr):
        labels = recorded.get(selector.metric) or frozenset(NAMES[selector.metric])
        assert selector.labels <= labels, f"{name}: {selector}"
        known |= labels
    assert grouped <= known, f"{name}: {grouped - known}"


@each_expression_on_exporters
def test_an_expression_never_tells_servers_apart_by_the_address_of_an_exporter(
    name: str, expr: str
) -> None:
    del name
    assert "instance" not in expr
    assert "without" not in expr


@each_expression
def test_every_recording_is_used_by_an_alert_or_a_recording(name: str, expr: str) -> None:
    del expr
    if name not in {rule.name for rule in RECORDINGS}:
        return
    users = [n for n, e in EXPRESSIONS.items() if name in {s.metric for s in selectors(e)}]
    assert users


def matched(expr: str, label: str) -> set[str]:
    """The values that an expression compares a label with."""
    found = re.findall(rf'\b{label}\s*(?:=~|!~|!=|=)\s*"([^"]*)"', expr)
    return {value for values in found for value in values.split("|")}


@each_expression_on_exporters
def test_an_expression_uses_values_that_the_programs_give(name: str, expr: str) -> None:
    del name
    interrupted = set(gateway.families.REASONS)
    held_for = {reason for action, reason in RECORDED if action is Action.HOLD}
    assert matched(expr, "state") <= set(State)
    assert matched(expr, "reason") <= (interrupted if "gateway_interrupted" in expr else held_for)
    assert matched(expr, "status") <= set(gateway.families.STATUSES)
    assert matched(expr, "traffic") <= set(Traffic)
    assert matched(expr, "outcome") <= set(AttemptState)


def test_the_runbook_explains_every_reason_to_leave_a_server_alone() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", RUNBOOK.read_text(), re.MULTILINE))
    assert told == {r for action, r in RECORDED if action in (Action.HOLD, Action.ESCALATE)}
