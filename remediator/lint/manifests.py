"""Kubernetes manifests: every pod template, in whatever kind of object it stands.

Containers are found by the key ``containers``, so that a StatefulSet, a List, a CronJob and a
custom resource with a pod template in it are read alike. restartPolicy is not looked at: it starts
what exited, and a Deployment allows no other.
"""

import re
from collections.abc import Iterator, Sequence

from fleet.finding import Finding
from fleet.placed_yaml import Placed
from remediator.lint import probe, scheduled
from remediator.lint.rule import Place, Rule
from remediator.lint.server import Certainty, Described


def is_manifest(document: Placed) -> bool:
    """Whether a document is an object of Kubernetes."""
    return bool(document.word("apiVersion") and document.word("kind"))


def names(documents: Sequence[Placed]) -> frozenset[str]:
    """The names of the objects that run vLLM servers."""
    return frozenset(
        thing.word("metadata", "name")
        for thing in _objects(documents)
        if any(_described(each).certainty for each in _containers(thing))
    ) - {""}


def findings(
    file: str, documents: Sequence[Placed], known: frozenset[str], load_seconds: float
) -> Iterator[Finding]:
    """What in these documents may restart a server; ``known`` are names of servers."""
    for thing in _objects(documents):
        servers = [each for each in _containers(thing) if _described(each).certainty]
        for container in servers:
            subject = _described(container).subject
            yield from probe.findings(file, container, subject, load_seconds)
        if servers:
            yield from _of_deadline(file, thing)
        if thing.word("kind") == "CronJob":
            yield from _of_cron_job(file, thing, known)


def _objects(documents: Sequence[Placed]) -> Iterator[Placed]:
    """The objects of the documents, those inside of Lists, too."""
    for document in documents:
        if document.word("kind").endswith("List") and document.get("items"):
            yield from _objects(document.entries["items"].items)
        elif is_manifest(document):
            yield document


def _containers(thing: Placed) -> Iterator[Placed]:
    for below in thing.walk():
        listed = below.get("containers")
        yield from (each for each in (listed.items if listed else ()) if each.entries)


def _described(container: Placed) -> Described:
    looks = (
        container.word(probe_name, "httpGet", "path") + _command(container.get(probe_name, "exec"))
        for probe_name in ("livenessProbe", "readinessProbe", "startupProbe")
    )
    ports = container.get("ports")
    return Described(
        name=container.word("name") or "a container",
        image=container.word("image"),
        command=_command(container),
        ports=" ".join(each.word("containerPort") for each in (ports.items if ports else ())),
        looks_at=" ".join(looks),
    )


def _command(container: Placed | None) -> str:
    """``command`` and ``args`` on one line."""
    parts = [container.get(key) for key in ("command", "args")] if container else []
    return " ".join(word.text for part in parts if part for word in (part, *part.items)).strip()


def _of_deadline(file: str, thing: Placed) -> Iterator[Finding]:
    for below in thing.walk():
        deadline = below.get("activeDeadlineSeconds")
        if deadline and re.fullmatch(r"[0-9]+", deadline.text):
            why = f"the pod is killed {deadline.text} s after its start, whatever it does"
            yield Place(file, deadline.line).finding(Rule.DEADLINE, why)


def _of_cron_job(file: str, thing: Placed, known: frozenset[str]) -> Iterator[Finding]:
    when = f"at {thing.word('spec', 'schedule')!r}"
    for container in _containers(thing):
        if _described(container).certainty is Certainty.SURE:
            continue
        first = container.get("command") or container.get("args") or container
        place = Place(file, first.line)
        yield from scheduled.findings(place, when, _command(container), known)
