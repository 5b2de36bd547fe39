"""Each file of fixtures/ and the findings in it, to the line."""

from pathlib import Path

import pytest

from fleet.gather import gather
from gateway.doctor.__main__ import KNOWN
from gateway.doctor.rule import RULES, Rule
from gateway.doctor.source import findings

FIXTURES = Path(__file__).parent / "fixtures"

EXPECTED: dict[str, list[tuple[int, Rule]]] = {
    "kubernetes/gateway.yaml": [
        (11, Rule.ROLLOUT_HALF),
        (17, Rule.GRACE_GATEWAY),
        (23, Rule.LIVENESS_READY),
        (25, Rule.READINESS_MISSING),
        (35, Rule.PDB_BLOCKS),
        (41, Rule.REPLICAS_GATEWAY),
        (46, Rule.GRACE_GATEWAY),
        (47, Rule.READINESS_MISSING),
        (50, Rule.PRESTOP_UNKNOWN),
        (60, Rule.ROLLOUT_ALL),
        (75, Rule.PDB_LOOSE),
    ],
    "kubernetes/vllm.yaml": [
        (8, Rule.PDB_MISSING),
        (12, Rule.GRACE_VLLM),
        (21, Rule.REPLICAS_VLLM),
        (29, Rule.SHUTDOWN_TIMEOUT),
        (33, Rule.REPLICAS_VLLM),
        (42, Rule.SHELL_SIGNAL),
        (42, Rule.SHUTDOWN_UNKNOWN),
    ],
    "aws/ingress.yaml": [
        (28, Rule.DEREGISTRATION),
        (29, Rule.IDLE_WHOLE),
        (40, Rule.IDLE_TIMEOUT),
        (41, Rule.DEREGISTRATION),
        (53, Rule.IDLE_WHOLE),
    ],
    "aws/ingress-nginx.yaml": [
        (6, Rule.IDLE_TIMEOUT),
        (7, Rule.BUFFERING_DEFAULT),
        (8, Rule.RETRY_POST),
        (9, Rule.HTTP_VERSION),
        (21, Rule.PROXY_SHUTDOWN),
        (22, Rule.RETRY_POST),
        (23, Rule.IDLE_TIMEOUT),
    ],
    "nginx/nginx.conf": [
        (2, Rule.PROXY_SHUTDOWN),
        (7, Rule.INCLUDE_MISSING),
        (9, Rule.GZIP_EVENTS),
        (10, Rule.IDLE_TIMEOUT),
    ],
    "nginx/conf.d/chat.conf": [
        (2, Rule.IDLE_REUSE),
        (3, Rule.MAX_FAILS),
        (4, Rule.MAX_FAILS),
        (10, Rule.HTTP_CLOSE),
        (11, Rule.BUFFERING_DEFAULT),
        (11, Rule.HTTP_VERSION),
        (12, Rule.CLIENT_ABORT),
        (13, Rule.RETRY_POST),
        (16, Rule.BUFFERING),
        (18, Rule.IDLE_WHOLE),
    ],
    "nginx/other.conf": [(3, Rule.TARGET_UNKNOWN)],
    "haproxy/haproxy.cfg": [
        (3, Rule.PROXY_SHUTDOWN),
        (8, Rule.IDLE_TIMEOUT),
        (9, Rule.IDLE_WHOLE),
        (10, Rule.HTTP_CLOSE),
        (21, Rule.ABORT_ON_CLOSE),
        (23, Rule.CHECK_READY),
        (24, Rule.RETRY_POST),
        (25, Rule.CHECK_CUTS),
        (26, Rule.CHECK_READY),
        (35, Rule.CHECK_SLOW),
        (47, Rule.IDLE_TIMEOUT),
    ],
    "haproxy/unlimited.cfg": [(1, Rule.PROXY_UNLIMITED)],
    "haproxy/unknown.cfg": [(1, Rule.TARGET_UNKNOWN)],
    "compose/compose.yml": [
        (2, Rule.GRACE_GATEWAY),
        (5, Rule.STOP_SIGNAL),
        (9, Rule.GRACE_VLLM),
        (12, Rule.SHELL_SIGNAL),
        (12, Rule.SHUTDOWN_TIMEOUT),
    ],
    "compose/proxy.conf": [(7, Rule.BUFFERING_DEFAULT), (10, Rule.BUFFERING)],
    "systemd/vllm-gateway.service": [],
    "systemd/vllm-gateway.service.d/quick.conf": [(2, Rule.GRACE_GATEWAY), (3, Rule.KILL_MODE)],
    "systemd/vllm@.service": [
        (2, Rule.GRACE_VLLM),
        (2, Rule.KILL_MODE),
        (4, Rule.STOP_SIGNAL),
    ],
    "systemd/qwen.service": [(2, Rule.GRACE_VLLM)],
    "systemd/llama.container": [(4, Rule.GRACE_VLLM)],
    "fleet/fleet.yml": [
        (5, Rule.FLEET_SEVERAL),
        (5, Rule.FLEET_WINDOW),
        (8, Rule.FLEET_VALUE),
    ],
    "fleet/other.yml": [],
    "example/fleet.yml": [],
    "example/gateway.yaml": [
        (5, Rule.PDB_MISSING),
        (10, Rule.GRACE_GATEWAY),
        (16, Rule.LIVENESS_READY),
    ],
    "example/haproxy.cfg": [(5, Rule.CHECK_SLOW)],
    "example/nginx.conf": [
        (2, Rule.PROXY_SHUTDOWN),
        (4, Rule.MAX_FAILS),
        (4, Rule.MAX_FAILS),
        (11, Rule.RETRY_POST),
    ],
    "clean/fleet.yml": [],
    "clean/vllm.yaml": [],
    "clean/compose.yml": [],
    "clean/vllm@.service": [],
    "clean/vllm-gateway.service": [],
    "clean/haproxy.cfg": [],
}
FOLDERS = sorted({Path(file).parts[0] for file in EXPECTED})


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_the_expected_findings(folder: str) -> None:
    gathered = gather([str(FIXTURES / folder)], KNOWN)
    assert (gathered.problems, gathered.unknown_found) == ([], 0)
    found: dict[str, list[tuple[int, Rule]]] = {
        str(Path(each.file).relative_to(FIXTURES)): [] for each in gathered.sources
    }
    for finding in findings(gathered.sources):
        where = str(Path(finding.file).relative_to(FIXTURES))
        found[where].append((finding.line, Rule(finding.rule)))
    assert found == {
        file: expected for file, expected in EXPECTED.items() if file.startswith(f"{folder}/")
    }


def test_every_rule_has_a_fixture() -> None:
    assert {rule for expected in EXPECTED.values() for _, rule in expected} == set(Rule)


def test_every_rule_has_a_severity_and_a_fix() -> None:
    assert set(RULES) == set(Rule)
    assert all(about.fix for about in RULES.values())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_finding_has_a_fix_to_write_and_the_two_values_that_it_compares(folder: str) -> None:
    for finding in findings(gather([str(FIXTURES / folder)], KNOWN).sources):
        for text in (finding.why, finding.fix):
            assert text.isprintable()
        assert not any(f"{{{name}}}" in finding.fix for name in ("seconds", "need", "setting"))
        assert finding.have in finding.why or finding.rule in (Rule.PDB_MISSING, Rule.HTTP_CLOSE)


def test_the_sum_is_in_the_sentence_and_the_values_apart() -> None:
    found = findings(gather([str(FIXTURES / "kubernetes" / "gateway.yaml")], KNOWN).sources)
    (grace, _) = (each for each in found if each.rule == Rule.GRACE_GATEWAY)
    assert grace.why == (
        "gateway: terminationGracePeriodSeconds is 60 s, has to be at least 70 s: preStop 10 s + "
        "window 60 s (propagation 5 s + drain 45 s + margin 10 s); SIGKILL cuts what is still in "
        "flight"
    )
    assert (grace.have, grace.need) == ("60 s", "at least 70 s")
    assert grace.fix == "terminationGracePeriodSeconds: 70"
