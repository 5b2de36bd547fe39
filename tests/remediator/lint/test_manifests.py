"""Probes in manifests: where the numbers, the path or the command make the difference."""

import json

import pytest

from tests.remediator.lint.judging import judged, rules

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  containers:
    - name: a
      image: vllm/vllm-openai:v0.11.0
      {probe}
"""


def of(probe: str, load_seconds: float = 600.0) -> list[str]:
    return rules("pod.yaml", POD.format(probe=probe), load_seconds)


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ("livenessProbe: {httpGet: {path: /health, port: 8000}}", ["liveness-health"]),
        ("livenessProbe: {httpGet: {port: 8000}}", ["liveness-health"]),
        (
            "livenessProbe: {exec: {command: [curl, -f, 'localhost:8000/health']}}",
            ["liveness-health"],
        ),
        (
            "livenessProbe: {httpGet: {path: /health}, periodSeconds: 60, timeoutSeconds: 10}",
            ["liveness-patient"],
        ),
        (
            "livenessProbe: {httpGet: {path: /health}, periodSeconds: 59, timeoutSeconds: 10}",
            ["liveness-health"],
        ),
        (
            "livenessProbe: {httpGet: {path: /health}, periodSeconds: 60, timeoutSeconds: 9}",
            ["liveness-health"],
        ),
        ("livenessProbe: {exec: {command: [sh, -c, exit 0]}}", []),
        ("livenessProbe: {exec: {command: [/bin/true]}}", []),
        ("livenessProbe: {exec: {command: [pgrep, -f, vllm]}}", ["liveness-command"]),
        ("livenessProbe: {exec: {command: []}}", []),
        ("livenessProbe: {grpc: {port: 50051}}", []),
        ("livenessProbe: {}", []),
        ("livenessProbe: nonsense", []),
        ("livenessProbe: {tcpSocket: {port: 8000}, initialDelaySeconds: 570}", []),
        (
            "livenessProbe: {tcpSocket: {port: 8000}, initialDelaySeconds: 569}",
            ["liveness-loading"],
        ),
        ("startupProbe: {httpGet: {path: /health}, failureThreshold: 60}", []),
        ("startupProbe: {httpGet: {path: /health}, failureThreshold: 59}", ["startup-short"]),
        ("startupProbe: {httpGet: {path: /v1/models}}", ["startup-short"]),
        ("startupProbe: {exec: {command: ['true']}}", []),
        ("readinessProbe: {httpGet: {path: /health}}", []),
        ("readinessProbe: {httpGet: {path: /v1/completions}}", ["readiness-request"]),
    ],
)
def test_a_probe_is_judged_by_what_it_looks_at_and_for_how_long(
    probe: str, expected: list[str]
) -> None:
    assert of(probe) == expected


def test_a_startup_probe_covers_the_loading_for_a_liveness_probe_on_the_port() -> None:
    tcp = "livenessProbe: {tcpSocket: {port: 8000}}"
    startup = "startupProbe: {httpGet: {path: /health}, failureThreshold: 60}"
    assert of(f"{tcp}\n      {startup}") == []


def test_how_long_a_model_loads_is_said_by_the_user() -> None:
    probe = "startupProbe: {httpGet: {path: /health}, failureThreshold: 60}"
    assert of(probe, 600.0) == []
    (finding,) = judged("pod.yaml", POD.format(probe=probe), 1800.0)
    assert finding.fix == "with periodSeconds 10 set failureThreshold to 180 or more"


def test_what_is_no_number_counts_as_the_default() -> None:
    probe = "livenessProbe: {httpGet: {path: /health}, periodSeconds: $P, failureThreshold: -1}"
    (finding,) = judged("pod.yaml", POD.format(probe=probe))
    assert "failureThreshold 3 x periodSeconds 10 = 30 s" in finding.why


@pytest.mark.parametrize("kind", ["DaemonSet", "Job", "LeaderWorkerSet"])
def test_a_pod_template_is_found_in_whatever_it_stands(kind: str) -> None:
    inner = "containers: [{image: vllm/vllm-openai, livenessProbe: {httpGet: {path: /health}}}]"
    text = f"apiVersion: x/v1\nkind: {kind}\nspec: {{a: {{b: {{{inner}}}}}}}\n"
    assert rules("a.yml", text) == ["liveness-health"]


def test_json_is_a_manifest_too() -> None:
    container = {"image": "vllm/vllm-openai", "livenessProbe": {"httpGet": {"path": "/health"}}}
    text = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}})
    assert rules("pod.json", text) == ["liveness-health"]


def test_control_characters_of_a_file_do_not_come_out_again() -> None:
    text = POD.format(probe="livenessProbe: {httpGet: {path: /health}}").replace(
        "- name: a", '- name: "a\\e[31m\\n"'
    )
    (finding,) = judged("pod.yaml", text)
    assert finding.why.isprintable()
