"""Pods of the gateway and of vLLM: their end, and their probes.

The gateway's /-/ready says 503 as soon as it drains, and takes it out of its Service; /-/healthy
says 200 until it is gone. A livenessProbe on /-/ready has the kubelet restart a container that
drains (kubernetes.io, "Configure Liveness, Readiness and Startup Probes"). vLLM's own probes are
the matter of `vllm-remediator lint`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.finding import Finding
from fleet.manifest import described
from fleet.placed_yaml import Placed
from gateway.doctor.ending import KUBERNETES_SECONDS, Ending
from gateway.doctor.ours import Program, Shutdown, program, subject, swallowing_shell, words
from gateway.doctor.rule import Place, Rule
from gateway.doctor.times import Times

SLEEP = re.compile(r"\bsleep\s+([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)(?![\w.])")
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
# What runs to its end by itself.
PASSING = frozenset({"Job", "CronJob"})
READY = "/-/ready"


@dataclass(frozen=True)
class Pod:
    """A pod template in an object; ``labels`` are those of its pods."""

    file: str
    thing: Placed
    spec: Placed
    labels: Mapping[str, str]

    def programs(self) -> Iterator[tuple[Program, Placed]]:
        """Its containers that are ours."""
        listed = self.spec.get("containers")
        for container in listed.items if listed else ():
            found = program(described(container), " ".join(self.labels.values()))
            if container.entries and found:
                yield found, container

    def runs(self, wanted: Program) -> bool:
        """Whether one of its containers is such a program."""
        return any(found is wanted for found, _ in self.programs())


def pods(file: str, thing: Placed) -> Iterator[Pod]:
    """The pod templates in an object, in whatever depth."""
    labels: dict[int, Mapping[str, str]] = {}
    if thing.word("kind") in PASSING:
        return
    for below in thing.walk():
        spec, found = below.get("spec"), below.get("metadata", "labels")
        if spec is not None and found is not None:
            labels[id(spec)] = {key: each.text for key, each in found.entries.items()}
        listed = below.get("containers")
        if listed and listed.items:
            yield Pod(file, thing, below, labels.get(id(below), {}))


def findings(pod: Pod, times: Times) -> Iterator[Finding]:
    """What is wrong with the end and the probes of a pod's programs."""
    for found, container in pod.programs():
        told = subject(found, described(container))
        yield from _of_end(pod, found, container, told, times)
        if found is Program.GATEWAY:
            yield from _of_probes(pod.file, container, told)


def _of_end(
    pod: Pod, found: Program, container: Placed, whose: str, times: Times
) -> Iterator[Finding]:
    before, unknown = _before(container)
    if unknown:
        why = f"{whose}how long preStop takes is not seen here; it counts inside the grace period"
        yield Place(pod.file, unknown.line).finding(Rule.PRESTOP_UNKNOWN, why)
    said = pod.spec.get("terminationGracePeriodSeconds")
    grace = _number(said.text) if said else KUBERNETES_SECONDS
    line = (said or pod.spec.get("containers") or pod.spec).line
    command = container.get("args") or container.get("command") or container
    yield from Ending(
        place=Place(pod.file, line),
        subject=whose,
        setting="terminationGracePeriodSeconds: ",
        unit="",
        grace=grace,
        before=before,
        default=said is None,
    ).findings(found, Shutdown.of(described(container)), Place(pod.file, command.line), times)
    shell = swallowing_shell(_words(container))
    if shell:
        why = f"{whose}{shell} gets SIGTERM and does not pass it on: SIGKILL comes unannounced"
        yield Place(pod.file, command.line).finding(Rule.SHELL_SIGNAL, why)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _words(container: Placed) -> list[str]:
    parts = [container.get(key) for key in ("command", "args")]
    found: list[str] = []
    for part in parts:
        if part is not None:
            found += [item.text for item in part.items] or words(part.text)
    return found


def _before(container: Placed) -> tuple[float, Placed | None]:
    """Seconds of the preStop hook; and the hook itself where it does not show what it takes."""
    hook = container.get("lifecycle", "preStop")
    if hook is None or not hook.entries:
        return 0.0, None
    if hook.get("sleep") is not None:
        slept = _number(hook.word("sleep", "seconds"))
        return (0.0, hook) if slept is None else (slept, None)
    command = hook.get("exec", "command")
    text = " ".join(item.text for item in command.items) if command else ""
    sleeps = SLEEP.findall(text[:1000])
    if not sleeps:
        return 0.0, hook
    return sum(float(number) * UNITS[unit] for number, unit in sleeps), None


def _of_probes(file: str, container: Placed, whose: str) -> Iterator[Finding]:
    liveness, readiness = container.get("livenessProbe"), container.get("readinessProbe")
    alive, ready = _path(liveness), _path(readiness)
    if liveness and alive and alive in (READY, ready):
        same = "" if alive == READY else ", as readiness does"
        why = (
            f"{whose}liveness asks {alive}{same}, has to ask /-/healthy: a gateway that drains "
            "says 503 to readiness, and would be restarted amid its streams"
        )
        place = Place(file, liveness.line)
        yield place.finding(Rule.LIVENESS_READY, why, have=alive, need="/-/healthy")
    if ready != READY:
        have = ready or "nothing"
        why = (
            f"{whose}readiness asks {have}, has to ask {READY}: a gateway that drains must get "
            "no new requests"
        )
        place = Place(file, (readiness or container).line)
        yield place.finding(Rule.READINESS_MISSING, why, have=have, need=READY)


def _path(probe: Placed | None) -> str:
    """The path that a probe asks, by itself or by a command; empty for none."""
    if probe is None:
        return ""
    command = probe.get("exec", "command")
    text = " ".join(item.text for item in command.items) if command else ""
    found = re.search(r"/-/\w+", text[:1000])
    return probe.word("httpGet", "path") or (found[0] if found else "")
