"""A Kubernetes cluster's API: pods and workloads, read into values, and the two acts on them.

By the official client, whose models are not used: a newer server's answer may not fit them, and an
answer that cannot be read must not hide that the act was done.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any, TypeVar

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as NoAnswerError

from fleet.way import Kubernetes as Way
from remediator.restart.deadline import Deadline
from remediator.restart.sentence import one_line, sentence

Parsed = TypeVar("Parsed")
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
FIELD_MANAGER = "vllm-lifeguard"
# Pods that were evicted or have ended stay on the list and hold no server.
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
MOST_PODS = 10
KINDS = {"deployment": "deployment", "statefulset": "stateful_set", "daemonset": "daemon_set"}


class ClusterError(Exception):
    """The cluster could not be asked, or refused; one sentence.

    ``status`` is the HTTP status of a refusal. Without one no answer came, and what was asked for
    may be done all the same.
    """

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Pod:
    """A pod: which one, who makes a new one (KIND/NAME), and what may keep it from ending."""

    name: str
    uid: str
    owner: str | None
    node: str | None
    deleted_at: str | None
    finalizers: tuple[str, ...]

    @classmethod
    def from_json(cls, pod: Mapping[str, Any]) -> "Pod":
        """Raises KeyError where it has no name or uid."""
        meta = pod["metadata"]
        owners = [owner for owner in meta.get("ownerReferences") or () if owner.get("controller")]
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            owner=f"{owners[0]['kind']}/{owners[0]['name']}" if owners else None,
            node=(pod.get("spec") or {}).get("nodeName"),
            deleted_at=meta.get("deletionTimestamp"),
            finalizers=tuple(meta.get("finalizers") or ()),
        )


@dataclass(frozen=True)
class Workload:
    """What decides whether a workload's pods are replaced when its template changes.

    ``replicas`` is None for a DaemonSet.
    """

    replicas: int | None
    paused: bool
    on_delete: bool

    @classmethod
    def from_json(cls, workload: Mapping[str, Any]) -> "Workload":
        """Raises KeyError where it has no spec."""
        spec = workload["spec"]
        strategy = spec.get("updateStrategy") or {}
        return cls(
            spec.get("replicas"), bool(spec.get("paused")), strategy.get("type") == "OnDelete"
        )


class Cluster:
    """One namespace of a cluster, asked until a deadline. Every method raises ClusterError."""

    def __init__(self, way: Way, deadline: Deadline) -> None:
        """Reads the kubeconfig or the service account; a kubeconfig may run a program for it."""
        settings = client.Configuration()
        try:
            if way.kubeconfig is None:
                config.load_incluster_config(client_configuration=settings)
            else:
                config.load_kube_config(
                    str(way.kubeconfig), way.context, settings, persist_config=False
                )
        except (ConfigException, OSError, ValueError) as error:
            what = "a service account" if way.kubeconfig is None else f"{way.kubeconfig}"
            raise ClusterError(f"no cluster is known by {what}: {sentence(error)}") from error
        settings.retries = False
        self._host = settings.host
        self._namespace = way.namespace
        self._deadline = deadline
        self._api = client.ApiClient(settings)

    def close(self) -> None:
        """End its connections."""
        self._api.close()

    def pod(self, name: str) -> Pod | None:
        """The pod of that name, None where there is none."""
        try:
            return self._parsed(Pod.from_json, self._asked(self._core().read_namespaced_pod, name))
        except ClusterError as error:
            if error.status == 404:  # noqa: PLR2004 -- HTTP's not found
                return None
            raise

    def pods(self, selector: str) -> list[Pod]:
        """The pods that a label selector matches and that have not ended, the first ten."""
        found = self._asked(
            self._core().list_namespaced_pod,
            label_selector=selector,
            field_selector=NOT_ENDED,
            limit=MOST_PODS,
        )
        return self._parsed(lambda found: [Pod.from_json(pod) for pod in found["items"]], found)

    def delete(self, pod: Pod, grace: float | None) -> None:
        """Delete that very pod; one of the same name that replaced it stays."""
        options = client.V1DeleteOptions(
            preconditions=client.V1Preconditions(uid=pod.uid),
            grace_period_seconds=None if grace is None else ceil(grace),
        )
        self._asked(self._core().delete_namespaced_pod, pod.name, body=options)

    def workload(self, kind: str, name: str) -> Workload:
        """Read a deployment, statefulset or daemonset."""
        read = getattr(client.AppsV1Api(self._api), f"read_namespaced_{KINDS[kind]}")
        return self._parsed(Workload.from_json, self._asked(read, name))

    def roll(self, kind: str, name: str, now: datetime) -> None:
        """Set the annotation that ``kubectl rollout restart`` sets on the template of its pods."""
        annotations = {RESTARTED_AT: now.isoformat(timespec="seconds")}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        act = getattr(client.AppsV1Api(self._api), f"patch_namespaced_{KINDS[kind]}")
        self._asked(act, name, body=patch, field_manager=FIELD_MANAGER)

    def _core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self._api)

    def _asked(self, ask: Callable[..., Any], *args: str, **kwargs: object) -> Any:  # noqa: ANN401 -- JSON
        try:
            left = self._deadline.left()
            response = ask(
                *args,
                namespace=self._namespace,
                _preload_content=False,
                _request_timeout=(left, left),
                **kwargs,
            )
            status, body = response.status, response.data
        except ApiException as error:
            if not error.status:
                raise self._unheard(error.reason or "no reason") from error
            status, body = error.status, error.body
        except NewConnectionError as error:  # which urllib3 counts among what took too long
            raise self._unheard(sentence(error)) from error
        except (NoAnswerError, TimeoutError) as error:
            raise self._unheard(f"no answer within {self._deadline.seconds:g} s") from error
        except (HTTPError, OSError) as error:
            raise self._unheard(sentence(error)) from error
        return self._answer(status, body)

    def _parsed(self, parse: Callable[[Any], Parsed], answer: object) -> Parsed:
        try:
            return parse(answer)
        except (KeyError, TypeError, AttributeError) as error:
            raise ClusterError(f"what answers at {self._host} is no Kubernetes API") from error

    def _unheard(self, reason: str) -> ClusterError:
        return ClusterError(f"the cluster at {self._host} cannot be asked: {one_line(reason)}")

    def _answer(self, status: int, body: bytes | str | None) -> Any:  # noqa: ANN401 -- JSON
        try:
            answer = json.loads(body or b"")
        except ValueError:
            answer = {}
        if status < 300:  # noqa: PLR2004 -- HTTP's success
            return answer
        said = one_line(str(answer.get("message") or "no reason given"))
        if status == 401:  # noqa: PLR2004 -- HTTP's unauthorized
            why = f"the cluster at {self._host} does not accept our credentials"
        elif status == 403:  # noqa: PLR2004 -- HTTP's forbidden
            why = f"the cluster at {self._host} does not allow it: {said}"
        else:
            why = f"the cluster at {self._host} refuses with status {status}: {said}"
        raise ClusterError(why, status)
