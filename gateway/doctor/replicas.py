"""How many pods of a program there are, how many a roll-out and an eviction may take at once.

- replicas is 1 unless written, or what a HorizontalPodAutoscaler keeps at least.
- A Deployment's rollingUpdate: maxUnavailable 25 % (rounded down), maxSurge 25 % (rounded up);
  Recreate ends all pods before the first new one (kubernetes.io, "Deployments").
- A PodDisruptionBudget rounds percentages up, for minAvailable and for maxUnavailable; one that
  allows no disruption blocks `kubectl drain` for ever (kubernetes.io, "Specifying a Disruption
  Budget for your Application").
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.finding import Finding
from fleet.placed_yaml import Placed
from gateway.doctor.ours import Program
from gateway.doctor.pods import Pod
from gateway.doctor.rule import Place, Rule

REPLICATED = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
DEFAULT_UNAVAILABLE = "25%"


@dataclass(frozen=True)
class Thing:
    """An object of Kubernetes and its file."""

    file: str
    placed: Placed

    def is_of(self, kind: str, namespace: str) -> bool:
        """Whether it is such an object, and may be in that namespace."""
        own = self.placed.word("metadata", "namespace")
        return self.placed.word("kind") == kind and (not own or not namespace or own == namespace)


def findings(pod: Pod, things: Sequence[Thing]) -> Iterator[Finding]:
    """What is wrong with the number of a pod; ``things`` are all objects there are."""
    if pod.thing.word("kind") not in REPLICATED:
        return
    found = next((each for each, _ in pod.programs()), None)
    if found is None:
        return
    name, namespace = (pod.thing.word("metadata", key) for key in ("name", "namespace"))
    said = pod.thing.get("spec", "replicas")
    line = (said or pod.thing.get("spec") or pod.thing).line
    replicas = _least(pod.thing, namespace, things)
    if replicas is None:
        return
    if replicas == 1:
        yield _of_one(Place(pod.file, line), name, found)
    else:
        yield from _of_rollout(pod, name, replicas)
    yield from _of_budget(pod, Place(pod.file, line), things, replicas)


def _least(workload: Placed, namespace: str, things: Sequence[Thing]) -> int | None:
    """How many pods there are at least; None where it is not seen, or none are wanted."""
    kind, name = workload.word("kind"), workload.word("metadata", "name")
    for thing in things:
        target = thing.placed.get("spec", "scaleTargetRef")
        if target and target.word("name") == name and target.word("kind") in (kind, ""):
            if thing.is_of("HorizontalPodAutoscaler", namespace):
                return _whole(thing.placed.word("spec", "minReplicas") or "1")
            return None
    return _whole(workload.word("spec", "replicas") or "1") or None


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else None


def _of_one(place: Place, name: str, found: Program) -> Finding:
    if found is Program.GATEWAY:
        why = f"{name}: replicas is 1, has to be at least 2: while the only gateway ends, nobody "
        why += "takes new requests or goes on with its streams"
        return place.finding(Rule.REPLICAS_GATEWAY, why, have="1", need="at least 2")
    why = f"{name}: replicas is 1, should be at least 2: while the only vLLM server restarts, its "
    why += "streams have nowhere to go on, unless others serve the same model"
    return place.finding(Rule.REPLICAS_VLLM, why, have="1", need="at least 2")


def _of_rollout(pod: Pod, name: str, replicas: int) -> Iterator[Finding]:
    if pod.thing.word("kind") != "Deployment":
        return
    strategy = pod.thing.get("spec", "strategy")
    kind = strategy.get("type") if strategy else None
    if strategy and kind and kind.text == "Recreate":
        why = f"{name}: Recreate ends all {replicas} pods at once: streams have nowhere to go on"
        place = Place(pod.file, kind.line)
        yield place.finding(Rule.ROLLOUT_ALL, why, have="Recreate", need="RollingUpdate")
        return
    said = pod.thing.get("spec", "strategy", "rollingUpdate", "maxUnavailable")
    gone = _of(said.text if said else DEFAULT_UNAVAILABLE, replicas, up=False)
    if said is None or gone is None or 2 * gone < replicas:
        return
    rule = Rule.ROLLOUT_ALL if gone >= replicas else Rule.ROLLOUT_HALF
    have = f"{gone} of {replicas}"
    many = "all" if gone >= replicas else "half or more"
    why = f"{name}: a roll-out may take {have} pods away at once, {many} of what serves"
    yield Place(pod.file, said.line).finding(rule, why, have=have, need="less than half")


def _of(text: str, replicas: int, *, up: bool) -> int | None:
    """A number, or a percentage of the replicas; None where it is neither."""
    number = _whole(text.removesuffix("%"))
    if number is None or not text.endswith("%"):
        return number
    share = number * replicas / 100
    return math.ceil(share) if up else math.floor(share)


def _of_budget(pod: Pod, place: Place, things: Sequence[Thing], replicas: int) -> Iterator[Finding]:
    namespace = pod.thing.word("metadata", "namespace")
    name = pod.thing.word("metadata", "name")
    budgets = [
        thing
        for thing in things
        if thing.is_of("PodDisruptionBudget", namespace)
        and selects(thing.placed.get("spec", "selector"), pod.labels)
    ]
    if not budgets and replicas > 1:
        why = f"{name}: no PodDisruptionBudget for its {replicas} pods is in these files: draining "
        why += "a node, or several, may take all of them at once"
        yield place.finding(Rule.PDB_MISSING, why, have="none", need="one")
    for budget in budgets:
        yield from _of_one_budget(budget, name, replicas)


def _of_one_budget(budget: Thing, name: str, replicas: int) -> Iterator[Finding]:
    for key in ("minAvailable", "maxUnavailable"):
        said = budget.placed.get("spec", key)
        number = _of(said.text, replicas, up=True) if said else None
        if said is None or number is None:
            continue
        allowed = replicas - number if key == "minAvailable" else number
        have = f"{key} {said.text}"
        place = Place(budget.file, said.line)
        if allowed <= 0:
            why = f"{name}: {have} of {replicas} pods lets none be evicted: draining a node never "
            why += "ends, until somebody deletes the pod without regard"
            yield place.finding(Rule.PDB_BLOCKS, why, have=have, need=f"less than {replicas} kept")
        elif allowed >= replicas > 1:
            why = f"{name}: {have} lets all {replicas} pods be evicted at once"
            yield place.finding(Rule.PDB_LOOSE, why, have=have, need="at least 1 kept")


def selects(selector: Placed | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes all, none takes none."""
    if selector is None or not isinstance(selector.value, Mapping):
        return False
    wanted = selector.get("matchLabels")
    if wanted and any(labels.get(key) != each.text for key, each in wanted.entries.items()):
        return False
    expressions = selector.get("matchExpressions")
    return all(_fits(each, labels) for each in (expressions.items if expressions else ()))


def _fits(expression: Placed, labels: Mapping[str, str]) -> bool:
    key, listed = expression.word("key"), expression.get("values")
    values = {each.text for each in (listed.items if listed else ())}
    match expression.word("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
