"""Kubernetes manifests: every pod template, in whatever kind of object it stands.

restartPolicy is not looked at: it starts what exited, and a Deployment allows no other.
"""

import re
from collections.abc import Iterator, Sequence

from fleet.finding import Finding
from fleet.manifest import command, containers, described, objects
from fleet.placed_yaml import Placed
from fleet.recognise import Certainty
from remediator.lint import probe, scheduled
from remediator.lint.rule import Place, Rule


def names(documents: Sequence[Placed]) -> frozenset[str]:
    """The names of the objects that run vLLM servers."""
    return frozenset(
        thing.word("metadata", "name")
        for thing in objects(documents)
        if any(described(each).certainty for each in containers(thing))
    ) - {""}


def findings(
    file: str, documents: Sequence[Placed], known: frozenset[str], load_seconds: float
) -> Iterator[Finding]:
    """What in these documents may restart a server; ``known`` are names of servers."""
    for thing in objects(documents):
        servers = [each for each in containers(thing) if described(each).certainty]
        for container in servers:
            subject = described(container).subject
            yield from probe.findings(file, container, subject, load_seconds)
        if servers:
            yield from _of_deadline(file, thing)
        if thing.word("kind") == "CronJob":
            yield from _of_cron_job(file, thing, known)


def _of_deadline(file: str, thing: Placed) -> Iterator[Finding]:
    for below in thing.walk():
        deadline = below.get("activeDeadlineSeconds")
        if deadline and re.fullmatch(r"[0-9]+", deadline.text):
            why = f"the pod is killed {deadline.text} s after its start, whatever it does"
            yield Place(file, deadline.line).finding(Rule.DEADLINE, why)


def _of_cron_job(file: str, thing: Placed, known: frozenset[str]) -> Iterator[Finding]:
    when = f"at {thing.word('spec', 'schedule')!r}"
    for container in containers(thing):
        if described(container).certainty is Certainty.SURE:
            continue
        first = container.get("command") or container.get("args") or container
        place = Place(file, first.line)
        yield from scheduled.findings(place, when, command(container), known)
