"""promtool and amtool are content, and the rule tests notice when a rule changes."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import parts
from tests.rules.shipped import DIRECT, RULE_FILES, RULES, TEST_FILES, groups

pytestmark = pytest.mark.long

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@pytest.fixture(scope="module")
def programs() -> parts.Parts:
    return parts.find()


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=600)


def test_the_rules_are_valid(programs: parts.Parts) -> None:
    done = run(programs.promtool, "check", "rules", *RULE_FILES, DIRECT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_configuration_of_prometheus_is_valid(programs: parts.Parts) -> None:
    done = run(programs.promtool, "check", "config", RULES / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_routes_are_valid(programs: parts.Parts) -> None:
    done = run(programs.amtool, "check-config", RULES / "alertmanager.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", TEST_FILES, ids=lambda file: file.stem)
def test_the_rule_tests_pass(programs: parts.Parts, file: Path) -> None:
    done = run(programs.promtool, "test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", TEST_FILES, ids=lambda file: file.stem)
def test_the_rule_tests_evaluate_recordings_before_alerts(file: Path) -> None:
    # promtool shuffles groups that are not listed, and one that is late sees the last round's.
    content = yaml.safe_load(file.read_text())
    used = [(file.parent / name).resolve() for name in content["rule_files"]]
    assert used in ([*RULE_FILES], [DIRECT])
    assert content["group_eval_order"] == [group["name"] for group in groups(*used)]


MUTANTS = {
    "one wait instead of two": ("alerts.yml", "(2 * backend", "(1 * backend", "stuck"),
    "more than two waits instead of two": (
        "alerts.yml",
        r">=( on \(backend\) group_left \(\)\s+\(2 \*)",
        r">\1",
        "stuck",
    ),
    "a failed scrape ends an alert": (
        "recording.yml",
        r"last_over_time\((vllm_engine_quiet_seconds)\[1m\]\)",
        r"\1",
        "stuck",
    ),
    "every exporter its own alert": (
        "recording.yml",
        r"max by \(backend, engine\) \(last_over_time\(vllm_engine_quiet",
        "max by (backend, engine, instance) (last_over_time(vllm_engine_quiet",
        "stuck",
    ),
    "the slower of two exporters decides": (
        "recording.yml",
        r"max by \(backend, engine\) \(last_over_time\(vllm_engine_quiet",
        "min by (backend, engine) (last_over_time(vllm_engine_quiet",
        "stuck",
    ),
    "dead before it can have exited": ("alerts.yml", "for: 90s", "for: 15s", "dead"),
    "three waits instead of four": ("alerts.yml", "(4 * backend", "(3 * backend", "starved"),
    "a stuck engine hides a starved neighbour": (
        "alerts.yml",
        r"unless on \(backend, engine\)",
        "unless on (backend)",
        "starved",
    ),
    "one exporter that is cut off makes a server down": (
        "recording.yml",
        r"min by \(backend, state\)",
        "max by (backend, state)",
        "backends",
    ),
    "our own restart is a foreign one": ("alerts.yml", ":max - 900)", ":max - 0)", "restarts"),
    "everything after our restart is ours": (
        "alerts.yml",
        ":max - 900)",
        ":max - 9000)",
        "restarts",
    ),
    "two exporters see two restarts": (
        "recording.yml",
        r"max by \(backend\) \(increase",
        "sum by (backend) (increase",
        "restarts",
    ),
    "a silence is reported back": ("alerts.yml", "silenced|", "", "remediation"),
    "a restart that helped is a failure": (
        "alerts.yml",
        "still_stuck|",
        "recovered|",
        "remediation",
    ),
    "a hold of another server excuses this one": (
        "alerts.yml",
        r"unless on \(backend\)(\s+\(max by \(backend\) \(last_over_time\(remediator_held)",
        r"unless on ()\1",
        "still_stuck",
    ),
    "what is held is told twice": (
        "alerts.yml",
        r"unless on \(backend\)\s+\(max by \(backend\) \(last_over_time\(remediator_held.*",
        "",
        "still_stuck",
    ),
    "nine minutes instead of ten": ("alerts.yml", "for: 10m", "for: 9m", "still_stuck"),
    "a failure is forgotten while it lasts": (
        "alerts.yml",
        'alertname="VLLMRemediationFailed", alertstate',
        'alertname="Another", alertstate',
        "remediation",
    ),
    "a shadow repairs": (
        "alerts.yml",
        r'(outcome="recovered".*\n)\s+unless on \(\)\n.*',
        r"\1",
        "remediation",
    ),
    "every gust is a storm of its own": (
        "alerts.yml",
        "remediator_storm[5m]",
        "remediator_storm[1m]",
        "remediation",
    ),
    "the first foreign restart is repeated": (
        "alerts.yml",
        "[6h])) >= 2",
        "[6h])) >= 1",
        "restarts",
    ),
    "our own restarts are foreign where a remediator counts": (
        "alerts.yml",
        r"unless on \(\)\s+max\(max_over_time\(up\{job=\"vllm-remediator\"\}\[1d\]\)\)",
        "",
        "restarts",
    ),
    "everything after our restart is excused": (
        "alerts.yml",
        r"\(backend:remediator_restart_under_way:max == 1\)",
        "(backend:remediator_last_restart_timestamp_seconds:max > time() - 900)",
        "backends",
    ),
    "a restart of ours excuses every server": (
        "alerts.yml",
        r"unless on \(backend\)(\s+\(backend:remediator_restart_under_way)",
        r"unless on ()\1",
        "backends",
    ),
    "a remediator that is restarted excuses nothing": (
        "recording.yml",
        "remediator_restart_under_way[5m]",
        "remediator_restart_under_way[1m]",
        "backends",
    ),
    "a new exporter hides that another could not reload": (
        "alerts.yml",
        "min(last_over_time(vllm_exporter_config",
        "max(last_over_time(vllm_exporter_config",
        "watchers",
    ),
    "one failed look at a source is told": (
        "alerts.yml",
        "discovery_failures_total[3m]",
        "discovery_failures_total[15m]",
        "watchers",
    ),
    "a gateway is missed where there never was one": (
        "alerts.yml",
        r"and\s+\(max\(max_over_time\(up\{job=\"vllm-gateway\"\}\[1d\]\)\) == 1\)",
        "",
        "gateway",
    ),
    "the last gateway may vanish": (
        "alerts.yml",
        r"\s+or\s+max\(absent\(up\{job=\"vllm-gateway\"\}\)\)",
        "",
        "gateway",
    ),
    "a gateway that keeps up hides one that does not": (
        "alerts.yml",
        "max(last_over_time(gateway_ledger_lag",
        "min(last_over_time(gateway_ledger_lag",
        "gateway",
    ),
    "a client's mistake is a refusal": ("alerts.yml", r"\{status=\"503\"\}", "", "gateway"),
    "every refusal is told": ("alerts.yml", "> 0.05 *", "> 0 *", "gateway"),
    "a client that hangs up was cut off": ("alerts.yml", "broken|cut|error", "cut|gone", "gateway"),
    "few of many is many": ("alerts.yml", "> 0.01 *", "> 0.001 *", "gateway"),
    "four are many": ("alerts.yml", "[15m])) >= 5", "[15m])) >= 4", "gateway"),
    "a drain is a storm": (
        "alerts.yml",
        r"unless on \(backend\)\s+\(max by \(backend\) \(max_over_time\(gateway_backend.*",
        "",
        "gateway",
    ),
    "one crash is a storm": ("alerts.yml", "resumes_total[5m]", "resumes_total[20m]", "gateway"),
    "each gateway has storms of its own": (
        "alerts.yml",
        "(sum by (backend) (increase(gateway_resumes",
        "(max by (backend) (increase(gateway_resumes",
        "gateway",
    ),
    "an exporter nobody finds is not missed": (
        "alerts.yml",
        r"\s+or\s+max\(absent\(up\{job=\"vllm-exporter\"\}\)\)",
        "",
        "watchers",
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_the_rule_tests_notice_a_wrong_rule(
    programs: parts.Parts, mutant: tuple[str, str, str, str], tmp_path: Path
) -> None:
    file, pattern, replacement, suite = mutant
    shutil.copytree(RULES, tmp_path / "rules")
    wrong = tmp_path / "rules" / file
    text = wrong.read_text()
    pattern = pattern if "\\" in pattern else re.escape(pattern)
    changed, count = re.subn(pattern, replacement, text)
    assert count > 0, f"{file} has no {pattern!r} any more"
    wrong.write_text(changed)
    assert run(programs.promtool, "check", "rules", wrong).returncode == 0
    assert any(
        run(programs.promtool, "test", "rules", one).returncode != 0
        for one in one_by_one(tmp_path / "rules" / "tests" / f"{suite}.yml")
    )


def one_by_one(suite: Path) -> Iterator[Path]:
    """Files with one test of a file of tests each, what takes no time to evaluate first."""
    content = yaml.safe_load(suite.read_text())
    for number, test in enumerate(sorted(content["tests"], key=lasts)):
        file = suite.with_name(f"{suite.stem}-{number}.yml")
        file.write_text(yaml.safe_dump(content | {"tests": [test]}))
        yield file


def lasts(test: dict[str, Any]) -> float:
    """The last second that a test looks at."""
    looks = (*test.get("promql_expr_test", ()), *test.get("alert_rule_test", ()))
    return max(seconds(str(look["eval_time"])) for look in looks)


def seconds(duration: str) -> float:
    """Prometheus' durations, as in 1h30m."""
    parts = re.findall(r"(\d+)([smhd])", duration)
    assert "".join(number + unit for number, unit in parts) == duration
    return float(sum(int(number) * SECONDS[unit] for number, unit in parts))
