"""Pods: their grace period, their hooks, their number, and what may be taken away."""

import json

import pytest

from tests.gateway.doctor.judging import judged_files

READY = {"httpGet": {"path": "/-/ready"}}


def found(
    spec: dict[str, object] | None = None,
    container: dict[str, object] | None = None,
    *others: dict[str, object],
    workload: dict[str, object] | None = None,
    image: str = "vllm-gateway:1",
) -> list[str]:
    """The rules that a Deployment with one container breaks."""
    one = {"name": "a", "image": image, "readinessProbe": READY, **(container or {})}
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"terminationGracePeriodSeconds": 60, "containers": [one], **(spec or {})},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"replicas": 4, "template": template, **(workload or {})},
    }
    budget = {"kind": "PodDisruptionBudget", "spec": {"maxUnavailable": 1, "selector": {}}}
    things = [deployment, *(others or (budget,))]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "x", **each} for each in things
    ]})  # fmt: skip
    return [str(finding.rule) for finding in judged_files({"a.json": text})]


def hook(command: list[str]) -> dict[str, object]:
    return {"lifecycle": {"preStop": {"exec": {"command": command}}}}


@pytest.mark.parametrize(
    ("grace", "container", "expected"),
    [
        (60, {}, []),
        (59, {}, ["grace-gateway"]),
        (65, {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}, []),
        (64, {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}, ["grace-gateway"]),
        (180, hook(["sh", "-c", "sleep 1m && sleep 1m"]), []),
        (179, hook(["sh", "-c", "sleep 1m && sleep 1m"]), ["grace-gateway"]),
        (60, hook(["/drain.sh"]), ["prestop-unknown"]),
        (60, {"lifecycle": {"preStop": {"sleep": {"seconds": "$N"}}}}, ["prestop-unknown"]),
        (60, {"lifecycle": {"preStop": {}}}, []),
        ("{{ .grace }}", {}, []),
    ],
)
def test_the_grace_period_has_room_for_the_hook_and_the_window(
    grace: object, container: dict[str, object], expected: list[str]
) -> None:
    assert found({"terminationGracePeriodSeconds": grace}, container) == expected


@pytest.mark.parametrize(
    ("grace", "arguments", "expected"),
    [
        (31, ["--shutdown-timeout", "30"], []),
        (30, ["--shutdown-timeout", "30"], ["grace-vllm"]),
        (60, ["--shutdown-timeout", "0"], ["shutdown-timeout"]),
        (60, [], ["shutdown-timeout"]),
        (60, ["$(ARGS)"], ["shutdown-unknown"]),
    ],
)
def test_a_server_has_longer_than_it_takes_for_its_streams(
    grace: int, arguments: list[str], expected: list[str]
) -> None:
    spec: dict[str, object] = {"terminationGracePeriodSeconds": grace}
    assert found(spec, {"args": arguments}, image="vllm/vllm-openai:v1") == expected


@pytest.mark.parametrize(
    ("liveness", "readiness", "expected"),
    [
        ({"httpGet": {"path": "/-/healthy"}}, READY, []),
        ({"tcpSocket": {"port": 1}}, READY, []),
        (READY, READY, ["liveness-ready"]),
        ({"exec": {"command": ["curl", "-f", "localhost/-/ready"]}}, READY, ["liveness-ready"]),
        ({"httpGet": {"path": "/x"}}, {"httpGet": {"path": "/x"}},
         ["liveness-ready", "readiness-missing"]),
        (None, {"exec": {"command": ["curl", "-f", "localhost/-/ready"]}}, []),
        (None, {"tcpSocket": {"port": 1}}, ["readiness-missing"]),
    ],
)  # fmt: skip
def test_liveness_and_readiness_ask_different_things(
    liveness: object, readiness: object, expected: list[str]
) -> None:
    probes = {"livenessProbe": liveness, "readinessProbe": readiness}
    container = {key: probe for key, probe in probes.items() if probe}
    assert sorted(found({}, container)) == expected


def budget(**spec: object) -> dict[str, object]:
    return {"kind": "PodDisruptionBudget", "spec": {"selector": {}, **spec}}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([budget(maxUnavailable=1)], []),
        ([budget(minAvailable=3)], []),
        ([budget(minAvailable=4)], ["pdb-blocks"]),
        ([budget(minAvailable="76%")], ["pdb-blocks"]),
        ([budget(minAvailable="75%")], []),
        ([budget(maxUnavailable=0)], ["pdb-blocks"]),
        ([budget(maxUnavailable="0%")], ["pdb-blocks"]),
        ([budget(maxUnavailable="1%")], []),
        ([budget(maxUnavailable=4)], ["pdb-loose"]),
        ([budget(minAvailable=0)], ["pdb-loose"]),
        ([budget(minAvailable="{{ n }}")], []),
        ([budget(maxUnavailable=1, selector={"matchLabels": {"app": "b"}})], ["pdb-missing"]),
        ([budget(maxUnavailable=1, selector=None)], ["pdb-missing"]),
        (
            [budget(selector={"matchExpressions": [{"key": "app", "operator": "Gt"}]})],
            ["pdb-missing"],
        ),
        ([{**budget(maxUnavailable=1), "metadata": {"namespace": "b"}}], []),
    ],
)
def test_a_budget_lets_some_be_evicted_and_not_all(
    others: list[dict[str, object]], expected: list[str]
) -> None:
    assert found({}, {}, *others) == expected


WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: ml}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: a}}
    spec:
      terminationGracePeriodSeconds: 60
      containers: [{image: vllm-gateway, readinessProbe: {httpGet: {path: /-/ready}}}]
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: NAMESPACE}
spec: {selector: {}, maxUnavailable: 1}
"""


@pytest.mark.parametrize(("namespace", "expected"), [("ml", []), ("web", ["pdb-missing"])])
def test_a_budget_of_another_namespace_does_not_count(namespace: str, expected: list[str]) -> None:
    budget = BUDGET.replace("NAMESPACE", namespace)
    assert [
        str(each.rule) for each in judged_files({"a.yml": WORKLOAD, "b.yml": budget})
    ] == expected


@pytest.mark.parametrize(
    ("workload", "others", "expected"),
    [
        ({"replicas": 1}, [], ["replicas-gateway"]),
        ({"replicas": 0}, [], []),
        ({"replicas": "{{ n }}"}, [], []),
        ({"replicas": 4, "strategy": {"type": "Recreate"}}, [], ["rollout-all"]),
        ({"replicas": 4, "strategy": {"rollingUpdate": {"maxUnavailable": "49%"}}}, [], []),
        (
            {"replicas": 4, "strategy": {"rollingUpdate": {"maxUnavailable": "50%"}}},
            [],
            ["rollout-half"],
        ),
        (
            {"replicas": 4, "strategy": {"rollingUpdate": {"maxUnavailable": 4}}},
            [],
            ["rollout-all"],
        ),
        ({"replicas": 4, "strategy": {"rollingUpdate": {"maxUnavailable": "x"}}}, [], []),
    ],
)
def test_a_roll_out_leaves_enough(
    workload: dict[str, object], others: list[dict[str, object]], expected: list[str]
) -> None:
    assert found({}, {}, *others, workload=workload) == expected


@pytest.mark.parametrize(
    ("scaler", "expected"),
    [
        ({"kind": "HorizontalPodAutoscaler", "spec": {"minReplicas": 3}}, []),
        ({"kind": "HorizontalPodAutoscaler", "spec": {}}, ["replicas-gateway"]),
        ({"kind": "ScaledObject", "spec": {"minReplicaCount": 1}}, []),
    ],
)
def test_an_autoscaler_says_how_many_there_are(
    scaler: dict[str, dict[str, object]], expected: list[str]
) -> None:
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "a"}}
    whole: dict[str, object] = {**scaler, "spec": {**scaler["spec"], **target}}
    assert found({}, {}, whole, budget(maxUnavailable=1)) == expected


def test_other_pods_are_nobodys_business() -> None:
    assert found({}, {}, image="nginx:1.27") == []
    assert found({"containers": ["a", {}, None]}, {}) == []
