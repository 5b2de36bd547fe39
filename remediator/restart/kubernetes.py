"""Restarts a backend's pod by deleting it, or its workload by rolling it out anew.

A pod is deleted only if something owns it that makes a new one, and only as the pod that was looked
at: one that has replaced it meanwhile stays.
"""

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

from fleet.backend import Backend
from fleet.way import Kubernetes as Way
from remediator.restart import Outcome
from remediator.restart.cluster import Cluster, ClusterError, Pod
from remediator.restart.deadline import Deadline, bounded

LOOK_EVERY_SECONDS = 1.0
CONFLICT, NOT_FOUND = 409, 404
# The kubelet makes a mirror of each of its static pods, and deleting that restarts nothing.
STATIC = "Node/"


class Kubernetes:
    """Deletes the pod or rolls the workload of ``restart.kubernetes``."""

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        look_every: float = LOOK_EVERY_SECONDS,
    ) -> None:
        """``look_every`` is how often one looks whether a pod has ended, in seconds."""
        self._now = now
        self._look_every = look_every

    def restart(self, backend: Backend) -> Outcome:
        """Restart it; a pod has to end, a workload to accept, within ``restart.timeout``."""
        if backend.restart is None or not isinstance(backend.restart.way, Way):
            return Outcome(ok=False, why=f"{backend.name} has no restart.kubernetes")
        way = backend.restart.way
        return bounded(backend.restart.timeout, lambda deadline: self._outcome(way, deadline))

    def _outcome(self, way: Way, deadline: Deadline) -> Outcome:
        try:
            with closing(Cluster(way, deadline)) as cluster:
                if way.workload is not None:
                    return self._rolled(cluster, way, way.workload)
                pod = _chosen(cluster, way)
                if isinstance(pod, Outcome):
                    return pod
                return self._deleted(cluster, way, pod, deadline)
        except ClusterError as error:
            return Outcome(ok=False, why=str(error))

    def _deleted(self, cluster: Cluster, way: Way, pod: Pod, deadline: Deadline) -> Outcome:
        refusal = _refusal(pod)
        if refusal is not None:
            return Outcome(ok=False, why=refusal)
        output = f"pod {pod.name}, uid {pod.uid}, of {pod.owner}, on {pod.node or 'no node'}\n"
        try:
            cluster.delete(pod, way.grace)
        except ClusterError as error:
            why = str(error)
            if error.status is None:
                why += "; the pod may be deleted all the same"
            elif error.status in (CONFLICT, NOT_FOUND):
                why = f"the pod {pod.name!r} was replaced meanwhile, and its successor left alone"
            return Outcome(ok=False, why=why, output=output)
        return self._ended(cluster, pod, deadline, output)

    def _ended(self, cluster: Cluster, pod: Pod, deadline: Deadline, output: str) -> Outcome:
        """Whether a pod that was deleted is gone in time. What cannot be read is looked at anew."""
        held = ""
        try:
            while True:
                try:
                    seen = cluster.pod(pod.name)
                except ClusterError as error:
                    held = held or f": {error}"
                else:
                    if seen is None or seen.uid != pod.uid:
                        why = f"the pod {pod.name!r} was deleted and has ended"
                        return Outcome(ok=True, why=why, output=output)
                    held = f", held by {', '.join(seen.finalizers) or seen.node or 'no node'}"
                time.sleep(min(self._look_every, deadline.left()))
        except TimeoutError:
            why = (
                f"the pod {pod.name!r} was deleted and has not ended within {deadline.seconds:g} s"
                f"{held}"
            )
            return Outcome(ok=False, why=why, output=output)

    def _rolled(self, cluster: Cluster, way: Way, named: str) -> Outcome:
        kind, _, name = named.partition("/")
        try:
            workload = cluster.workload(kind, name)
        except ClusterError as error:
            if error.status == NOT_FOUND:
                why = f"there is no {named} in the namespace {way.namespace!r}"
                return Outcome(ok=False, why=why)
            raise
        refusal = None
        if workload.paused:
            refusal = "its rollout is paused"
        elif workload.on_delete:
            refusal = "its updateStrategy OnDelete restarts no pod"
        elif workload.replicas == 0:
            refusal = "it has no replicas"
        if refusal is not None:
            return Outcome(ok=False, why=f"{named} was left alone: {refusal}")
        try:
            cluster.roll(kind, name, self._now())
        except ClusterError as error:
            more = "; it may be rolled out all the same" if error.status is None else ""
            return Outcome(ok=False, why=f"{error}{more}")
        return Outcome(ok=True, why=f"{named} is rolled out anew")


def _chosen(cluster: Cluster, way: Way) -> Pod | Outcome:
    """The one pod that is meant, or why there is none."""
    where = f"in the namespace {way.namespace!r}"
    if way.pod is not None:
        pod = cluster.pod(way.pod)
        return pod or Outcome(ok=False, why=f"there is no pod {way.pod!r} {where}")
    pods = cluster.pods(way.selector or "")
    if len(pods) == 1:
        return pods[0]
    if not pods:
        return Outcome(ok=False, why=f"no pod {where} has the labels {way.selector!r}")
    names = ", ".join(pod.name for pod in pods)
    why = (
        f"more than one pod {where} has the labels {way.selector!r}, and none was touched: {names}"
    )
    return Outcome(ok=False, why=why)


def _refusal(pod: Pod) -> str | None:
    """Why that pod must not be deleted, if so."""
    if pod.deleted_at is not None:
        return f"the pod {pod.name!r} is being deleted already, since {pod.deleted_at}"
    if pod.owner is None:
        return f"the pod {pod.name!r} was left alone: nothing owns it that would make a new one"
    if pod.owner.startswith(STATIC):
        return f"the pod {pod.name!r} was left alone: it is static, its node alone can restart it"
    return None
