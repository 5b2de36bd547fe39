"""The Kubernetes driver on an emulated API server."""

import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from kmock import action, resource

from fleet.backend import Backend, Restart
from fleet.way import Kubernetes as Way
from remediator.restart.deadline import SLACK_SECONDS
from remediator.restart.kubernetes import Kubernetes
from tests.remediator.making import T0, backend
from tests.remediator.restart.api_server import NAMESPACE, VERBS, ApiServer, json_of, pod

DEPLOYMENTS = resource("apps", "v1", "deployments")
STATEFUL_SETS = resource("apps", "v1", "statefulsets")
DAEMON_SETS = resource("apps", "v1", "daemonsets")
WORKLOADS = {
    "deployments": DEPLOYMENTS,
    "statefulsets": STATEFUL_SETS,
    "daemonsets": DAEMON_SETS,
}
ROLES = Path(__file__).parents[3] / "deploy" / "kubernetes" / "roles.yml"
OURS = "app=vllm,backend=gpu-a"

Server = Callable[..., Backend]


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.stop()


@pytest.fixture
def server(api: ApiServer, tmp_path: Path) -> Server:
    file = api.kubeconfig(tmp_path)

    def make(timeout: float = 20.0, **way: Any) -> Backend:  # noqa: ANN401 -- fields by name
        return backend(restart=Restart(Way(NAMESPACE, **({"kubeconfig": file} | way)), timeout))

    return make


def driver() -> Kubernetes:
    return Kubernetes(now=lambda: T0, look_every=0.05)


def test_a_pod_is_deleted_as_the_very_one_that_was_looked_at(
    api: ApiServer, server: Server
) -> None:
    api.put(pod("gpu-a-0"))
    outcome = driver().restart(server(pod="gpu-a-0"))
    assert outcome.ok, outcome
    assert outcome.why == "the pod 'gpu-a-0' was deleted and has ended"
    assert outcome.output == (
        "pod gpu-a-0, uid uid-of-the-old, of ReplicaSet/gpu-a-7d9, on node-7\n"
    )
    assert api.alive("gpu-a-0") is None
    (delete,) = api.asked(action.DELETE)
    assert json_of(delete) == {"preconditions": {"uid": "uid-of-the-old"}}
    assert delete.headers["Authorization"] == "Bearer secret-token"


def test_a_grace_is_passed_on_in_whole_seconds(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-0"))
    assert driver().restart(server(pod="gpu-a-0", grace=20.5)).ok
    assert json_of(api.asked(action.DELETE)[0])["gracePeriodSeconds"] == 21


def test_the_one_pod_with_the_labels_is_deleted(api: ApiServer, server: Server) -> None:
    other = pod("gpu-b")
    other["metadata"]["labels"]["backend"] = "gpu-b"
    api.put(other)
    api.put(pod("gpu-a-x"))
    assert driver().restart(server(selector=OURS)).ok
    assert api.alive("gpu-a-x") is None
    assert api.alive("gpu-b") is not None


def test_no_pod_with_the_labels(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-x"))
    outcome = driver().restart(server(selector="app=other"))
    assert not outcome.ok
    assert outcome.why == "no pod in the namespace 'ml' has the labels 'app=other'"


def test_of_several_pods_with_the_labels_none_is_touched(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-x"))
    api.put(pod("gpu-a-y"))
    outcome = driver().restart(server(selector=OURS))
    assert not outcome.ok
    assert outcome.why == (
        "more than one pod in the namespace 'ml' has the labels 'app=vllm,backend=gpu-a', "
        "and none was touched: gpu-a-x, gpu-a-y"
    )
    assert api.asked(action.DELETE) == []


def test_pods_that_were_evicted_or_have_ended_are_not_meant(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-x"))
    api.put(pod("gpu-a-evicted", phase="Failed"))
    api.put(pod("gpu-a-ended", phase="Succeeded"))
    assert driver().restart(server(selector=OURS)).ok
    assert api.alive("gpu-a-x") is None
    assert api.alive("gpu-a-evicted") is not None


def test_one_that_ends_beside_its_successor_makes_it_two(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-x", deletionTimestamp="2026-03-01T12:00:00Z", finalizers=["a/b"]))
    api.put(pod("gpu-a-y"))
    assert not driver().restart(server(selector=OURS)).ok
    assert api.asked(action.DELETE) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"owner": None}, "was left alone: nothing owns it that would make a new one"),
        (
            {"owner": {"kind": "ConfigMap", "name": "x"}},
            "was left alone: nothing owns it that would make a new one",
        ),
        (
            {"owner": {"kind": "Node", "name": "node-7", "controller": True}},
            "was left alone: it is static, its node alone can restart it",
        ),
        (
            {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": ["a/b"]},
            "is being deleted already, since 2026-03-01T12:00:00Z",
        ),
    ],
    ids=["bare", "owned by what makes no pods", "static", "on its way out"],
)
def test_a_pod_that_must_not_be_deleted(
    api: ApiServer, server: Server, changed: dict[str, Any], why: str
) -> None:
    api.put(pod("gpu-a-0", **changed))
    outcome = driver().restart(server(pod="gpu-a-0"))
    assert not outcome.ok
    assert outcome.why == f"the pod 'gpu-a-0' {why}"
    assert api.asked(action.DELETE) == []


def test_one_that_was_replaced_between_look_and_act_stays(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-0"))
    api.cluster.swap_after_look = "gpu-a-0"
    outcome = driver().restart(server(pod="gpu-a-0"))
    assert not outcome.ok
    assert outcome.why == "the pod 'gpu-a-0' was replaced meanwhile, and its successor left alone"
    assert api.alive("gpu-a-0") is not None


def test_a_successor_of_the_same_name_means_that_the_old_one_is_gone(
    api: ApiServer, server: Server
) -> None:
    api.put(pod("gpu-a-0"))
    api.cluster.anew.add("gpu-a-0")
    outcome = driver().restart(server(pod="gpu-a-0"))
    assert outcome.ok, outcome
    successor = api.alive("gpu-a-0")
    assert successor is not None
    assert successor["metadata"]["uid"] == "uid-of-the-new"


def test_one_that_does_not_end_in_time_and_what_holds_it(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-0", finalizers=["gpu.example/release"]))
    outcome = driver().restart(server(pod="gpu-a-0", timeout=1.0))
    assert not outcome.ok
    assert outcome.why == (
        "the pod 'gpu-a-0' was deleted and has not ended within 1 s, held by gpu.example/release"
    )


def test_one_that_does_not_end_in_time_on_a_node_that_is_lost(
    api: ApiServer, server: Server
) -> None:
    api.put(pod("gpu-a-0"))
    api.cluster.lost.add("gpu-a-0")
    outcome = driver().restart(server(pod="gpu-a-0", timeout=1.0))
    assert not outcome.ok
    assert outcome.why == (
        "the pod 'gpu-a-0' was deleted and has not ended within 1 s, held by node-7"
    )


def test_one_that_may_be_deleted_and_not_looked_at(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-0"))
    api.cluster.denied.add((action.FETCH, "pods"))
    outcome = driver().restart(server(selector=OURS, timeout=1.0))
    assert not outcome.ok
    assert "has not ended within 1 s: the cluster at " in outcome.why
    assert "does not allow it: pods is forbidden" in outcome.why


def test_a_pod_that_there_is_not(server: Server) -> None:
    outcome = driver().restart(server(pod="nobody"))
    assert not outcome.ok
    assert outcome.why == "there is no pod 'nobody' in the namespace 'ml'"


def test_a_role_that_does_not_allow_it(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-0"))
    api.cluster.denied.add((action.DELETE, "pods"))
    outcome = driver().restart(server(pod="gpu-a-0"))
    assert not outcome.ok
    assert outcome.why == (
        f'the cluster at {api.url} does not allow it: pods is forbidden: User "gpu" cannot do that'
    )
    assert api.alive("gpu-a-0") is not None


def test_credentials_that_are_not_accepted(api: ApiServer, server: Server) -> None:
    api.cluster.locked_out = True
    outcome = driver().restart(server(pod="gpu-a-0"))
    assert outcome.why == f"the cluster at {api.url} does not accept our credentials"
    assert "secret-token" not in repr(outcome)


def test_an_act_whose_answer_never_comes_may_be_done(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-0"))
    api.cluster.mute.add(action.DELETE)
    outcome = driver().restart(server(pod="gpu-a-0", timeout=1.0))
    assert not outcome.ok
    assert outcome.why == (
        f"the cluster at {api.url} cannot be asked: no answer within 1 s; "
        "the pod may be deleted all the same"
    )
    assert len(api.asked(action.DELETE)) == 1


def test_a_server_that_is_no_cluster(api: ApiServer, server: Server) -> None:
    api.cluster.page = "<html>hello</html>"
    outcome = driver().restart(server(pod="gpu-a-0"))
    assert outcome.why == f"what answers at {api.url} is no Kubernetes API"


def test_a_cluster_that_is_not_there(api: ApiServer, tmp_path: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        api.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        way = Way(NAMESPACE, pod="gpu-a-0", kubeconfig=api.kubeconfig(tmp_path))
        outcome = driver().restart(backend(restart=Restart(way, 10.0)))
    assert not outcome.ok
    assert outcome.why == f"the cluster at {api.url} cannot be asked: Connection refused"


@pytest.mark.parametrize(
    ("kind", "of"),
    [("deployment", DEPLOYMENTS), ("statefulset", STATEFUL_SETS), ("daemonset", DAEMON_SETS)],
)
def test_a_workload_is_rolled_out_anew_as_kubectl_does_it(
    api: ApiServer, server: Server, kind: str, of: resource
) -> None:
    api.put({"metadata": {"name": "gpu-a"}, "spec": {"template": {"metadata": {}}}}, of)
    outcome = driver().restart(server(workload=f"{kind}/gpu-a"))
    assert outcome.ok, outcome
    assert outcome.why == f"{kind}/gpu-a is rolled out anew"
    (patch,) = api.asked(action.UPDATE)
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    stored = api.alive("gpu-a", of)
    assert stored is not None
    assert stored["spec"]["template"]["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/restartedAt": "2026-03-01T12:00:00+00:00"
    }


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"paused": True}, "its rollout is paused"),
        ({"updateStrategy": {"type": "OnDelete"}}, "its updateStrategy OnDelete restarts no pod"),
        ({"replicas": 0}, "it has no replicas"),
    ],
)
def test_a_workload_of_which_a_roll_out_would_restart_nothing(
    api: ApiServer, server: Server, spec: dict[str, Any], why: str
) -> None:
    api.put({"metadata": {"name": "gpu-a"}, "spec": spec}, STATEFUL_SETS)
    outcome = driver().restart(server(workload="statefulset/gpu-a"))
    assert not outcome.ok
    assert outcome.why == f"statefulset/gpu-a was left alone: {why}"
    assert api.asked(action.UPDATE) == []


def test_a_workload_that_there_is_not(server: Server) -> None:
    outcome = driver().restart(server(workload="deployment/nobody"))
    assert not outcome.ok
    assert outcome.why == "there is no deployment/nobody in the namespace 'ml'"


def test_a_roll_out_that_no_role_allows(api: ApiServer, server: Server) -> None:
    api.put({"metadata": {"name": "gpu-a"}, "spec": {}}, DEPLOYMENTS)
    api.cluster.denied.add((action.UPDATE, "deployments"))
    outcome = driver().restart(server(workload="deployment/gpu-a"))
    assert not outcome.ok
    assert "does not allow it: deployments is forbidden" in outcome.why


def test_a_kubeconfig_that_is_not_there(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "none"
    outcome = driver().restart(server(pod="gpu-a-0", kubeconfig=file))
    assert not outcome.ok
    assert outcome.why.startswith(f"no cluster is known by {file}: ")


def test_a_context_that_is_not_in_it(server: Server) -> None:
    outcome = driver().restart(server(pod="gpu-a-0", context="elsewhere"))
    assert not outcome.ok
    assert "elsewhere" in outcome.why


def test_outside_a_cluster_without_a_kubeconfig(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    outcome = driver().restart(server(pod="gpu-a-0", kubeconfig=None))
    assert not outcome.ok
    assert outcome.why == (
        "no cluster is known by a service account: Service host/port is not set."
    )


def test_a_program_for_credentials_that_is_late_leads_to_no_late_act(
    api: ApiServer, tmp_path: Path
) -> None:
    api.put(pod("gpu-a-0"))
    done = tmp_path / "done"
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        '"status": {"token": "late"}}'
    )
    script = (
        "import pathlib, sys, time; time.sleep(5); "
        f"print({credential!r}); pathlib.Path({str(done)!r}).touch()"
    )
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", script],
        "interactiveMode": "Never",
    }
    file = api.kubeconfig(tmp_path, exec=program)
    way = Way(NAMESPACE, pod="gpu-a-0", kubeconfig=file)
    began = time.monotonic()
    outcome = driver().restart(backend(restart=Restart(way, 1.0)))
    assert not outcome.ok
    assert outcome.why == "it did not end within 1 s, and may go on"
    assert time.monotonic() - began < 1 + SLACK_SECONDS + 1.5
    while not done.exists():
        assert time.monotonic() - began < 30
        time.sleep(0.05)
    time.sleep(0.5)  # what would follow follows at once
    assert api.cluster.seen == []


def roles() -> dict[str, set[tuple[str, str]]]:
    """The verbs and resources of each role that is shipped."""
    documents = yaml.safe_load_all(ROLES.read_text())
    return {
        document["metadata"]["name"]: {
            (verb, plural)
            for rule in document["rules"]
            for verb in rule["verbs"]
            for plural in rule["resources"]
        }
        for document in documents
        if document["kind"] == "Role"
    }


@pytest.mark.parametrize(
    ("role", "way"),
    [
        ("vllm-lifeguard-pods", {"pod": "gpu-a-0"}),
        ("vllm-lifeguard-pods", {"selector": OURS}),
        ("vllm-lifeguard-workloads", {"workload": "statefulset/gpu-a"}),
    ],
)
def test_the_shipped_roles_are_enough(
    api: ApiServer, server: Server, role: str, way: dict[str, str]
) -> None:
    api.put(pod("gpu-a-0"))
    api.put({"metadata": {"name": "gpu-a"}, "spec": {}}, STATEFUL_SETS)
    api.cluster.allowed = roles()[role]
    outcome = driver().restart(server(**way))
    assert outcome.ok, outcome


def test_the_shipped_roles_are_no_more_than_is_asked_for(api: ApiServer, server: Server) -> None:
    api.put(pod("gpu-a-0"))
    api.put(pod("gpu-a-1"))
    driver().restart(server(pod="gpu-a-0"))
    driver().restart(server(selector=OURS))
    for plural, of in WORKLOADS.items():
        api.put({"metadata": {"name": "gpu-a"}, "spec": {}}, of)
        driver().restart(server(workload=f"{plural.removesuffix('s')}/gpu-a"))
    asked = {
        (VERBS[request.action], request.resource.plural)
        for request in api.cluster.seen
        if request.action and request.resource
    }
    assert asked == set().union(*roles().values())


def test_a_backend_that_is_restarted_otherwise() -> None:
    assert not Kubernetes().restart(backend()).ok
