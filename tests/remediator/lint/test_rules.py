"""Each file of fixtures/ and the findings in it, to the line."""

from pathlib import Path

import pytest

from fleet.finding import Severity
from fleet.gather import gather
from remediator.lint.__main__ import KNOWN
from remediator.lint.rule import RULES, Rule
from remediator.lint.source import findings

ROOT = Path(__file__).parents[3]
FIXTURES = Path(__file__).parent / "fixtures"
LOAD_SECONDS = 600.0

EXPECTED: dict[str, list[tuple[int, str]]] = {
    "compose/autoheal.yml": [(6, Rule.COMPOSE_RESTART), (10, Rule.COMPOSE_AUTOHEAL)],
    "compose/autoheal-all.yml": [
        (2, Rule.COMPOSE_RESTART),
        (7, Rule.COMPOSE_REQUEST),
        (23, Rule.COMPOSE_AUTOHEAL),
    ],
    "compose/swarm.yml": [(8, Rule.COMPOSE_SWARM)],
    "compose/sidecars.yml": [(3, Rule.COMPOSE_UPDATER), (11, Rule.SCHEDULED_WATCHDOG)],
    "manifests/deployment.yaml": [
        (28, Rule.STARTUP_SHORT),
        (32, Rule.LIVENESS_HEALTH),
        (38, Rule.READINESS_REQUEST),
        (61, Rule.SCHEDULED_RESTART),
    ],
    "manifests/probes.yaml": [
        (13, Rule.LIVENESS_REQUEST),
        (28, Rule.DEADLINE),
        (32, Rule.LIVENESS_REQUEST),
        (36, Rule.LIVENESS_PATIENT),
        (43, Rule.LIVENESS_LOADING),
        (48, Rule.LIVENESS_COMMAND),
        (52, Rule.LIVENESS_CHECK),
        (58, Rule.LIVENESS_CHECK),
        (64, Rule.LIVENESS_HEALTH),
    ],
    "systemd/llm.service": [
        (5, Rule.UNIT_REBOOT),
        (13, Rule.UNIT_RESTART),
        (15, Rule.UNIT_WATCHDOG),
    ],
    "systemd/llm.service.d/daily.conf": [(2, Rule.UNIT_RUNTIME)],
    "systemd/vllm@.service": [(3, Rule.UNIT_RESTART)],
    "systemd/mend.service": [(6, Rule.SCHEDULED_WATCHDOG), (7, Rule.SCHEDULED_RESTART)],
    "systemd/mend.timer": [],
    "systemd/qwen.container": [(5, Rule.UNIT_HEALTH), (8, Rule.UNIT_RESTART)],
    "systemd/podman-vllm.service": [(2, Rule.UNIT_HEALTH)],
    "cron/crontab": [
        (3, Rule.SCHEDULED_WATCHDOG),
        (4, Rule.SCHEDULED_REQUEST),
        (5, Rule.SCHEDULED_RESTART),
        (6, Rule.SCHEDULED_RESTART),
        (7, Rule.SCHEDULED_PROGRAM),
        (8, Rule.SCHEDULED_CHECK),
        (9, Rule.SCHEDULED_WATCHDOG),
    ],
    "cron/cron.d/models": [(2, Rule.SCHEDULED_RESTART)],
    "example/crontab": [(1, Rule.SCHEDULED_WATCHDOG)],
    "example/vllm.yaml": [(12, Rule.LIVENESS_HEALTH)],
    "example/vllm@.service": [(3, Rule.UNIT_RESTART)],
    "clean/compose.yml": [],
    "clean/manifests.yaml": [],
    "clean/vllm.service": [],
    "clean/vllm-exporter.service": [],
    "clean/cron.d/others": [],
}


@pytest.mark.parametrize("folder", sorted({Path(file).parts[0] for file in EXPECTED}))
def test_a_folder_has_the_expected_findings(folder: str) -> None:
    gathered = gather([str(FIXTURES / folder)], KNOWN)
    assert (gathered.problems, gathered.unknown_found) == ([], 0)
    found: dict[str, list[tuple[int, str]]] = {
        str(Path(each.file).relative_to(FIXTURES)): [] for each in gathered.sources
    }
    for finding in findings(gathered.sources, LOAD_SECONDS):
        found[str(Path(finding.file).relative_to(FIXTURES))].append((finding.line, finding.rule))
    assert found == {
        file: expected for file, expected in EXPECTED.items() if file.startswith(f"{folder}/")
    }


def test_every_rule_has_a_fixture() -> None:
    assert {rule for expected in EXPECTED.values() for _, rule in expected} == set(Rule)


def test_every_rule_has_a_severity_and_a_fix() -> None:
    assert set(RULES) == set(Rule)
    assert all(about.fix for about in RULES.values())


@pytest.mark.parametrize("folder", sorted({Path(file).parts[0] for file in EXPECTED}))
def test_a_finding_is_one_sentence_with_a_fix_and_no_secret(folder: str) -> None:
    for finding in findings(gather([str(FIXTURES / folder)], KNOWN).sources, LOAD_SECONDS):
        for text in (finding.why, finding.fix):
            assert text.isprintable()
            assert "verysecret" not in text
        assert not any(f"{{{name}}}" in finding.fix for name in ("tries", "period", "how"))


def test_this_project_deploys_no_rival() -> None:
    ours = [str(ROOT / name) for name in ("docker-compose.yml", "deploy")]
    gathered = gather(ours, KNOWN)
    assert gathered.problems == []
    assert gathered.sources
    found = findings(gathered.sources, LOAD_SECONDS)
    assert [each for each in found if each.severity is Severity.ERROR] == []


def test_numbers_are_in_the_sentence() -> None:
    gathered = gather([str(FIXTURES / "manifests" / "deployment.yaml")], KNOWN)
    (health,) = (
        each
        for each in findings(gathered.sources, LOAD_SECONDS)
        if each.rule == Rule.LIVENESS_HEALTH
    )
    assert "failureThreshold 3 x periodSeconds 10 = 30 s, each with 1 s to answer" in health.why


def test_a_server_is_known_by_its_name_in_another_file() -> None:
    mend = str(FIXTURES / "systemd" / "mend.service")
    alone = findings(gather([mend], KNOWN).sources, LOAD_SECONDS)
    assert [each.line for each in alone] == [7]
    both = gather([mend, str(FIXTURES / "systemd" / "llm.service")], KNOWN)
    assert [each.line for each in findings(both.sources, 0) if each.file == mend] == [6, 7]
