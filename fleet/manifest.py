"""Kubernetes manifests: their objects and containers, in whatever kind of object they stand.

Containers are found by the key ``containers``, so that a StatefulSet, a List, a CronJob and a
custom resource with a pod template in it are read alike.
"""

from collections.abc import Iterator, Sequence

from fleet.placed_yaml import Placed
from fleet.recognise import Described


def is_manifest(document: Placed) -> bool:
    """Whether a document is an object of Kubernetes."""
    return bool(document.word("apiVersion") and document.word("kind"))


def objects(documents: Sequence[Placed]) -> Iterator[Placed]:
    """The objects of the documents, those inside of Lists, too."""
    for document in documents:
        if document.word("kind").endswith("List") and document.get("items"):
            yield from objects(document.entries["items"].items)
        elif is_manifest(document):
            yield document


def containers(thing: Placed) -> Iterator[Placed]:
    """All containers in an object, but those that run before the others."""
    for below in thing.walk():
        listed = below.get("containers")
        yield from (each for each in (listed.items if listed else ()) if each.entries)


def described(container: Placed) -> Described:
    """What there is to recognise a container by."""
    looks = (
        container.word(probe_name, "httpGet", "path") + command(container.get(probe_name, "exec"))
        for probe_name in ("livenessProbe", "readinessProbe", "startupProbe")
    )
    ports = container.get("ports")
    return Described(
        name=container.word("name") or "a container",
        image=container.word("image"),
        command=command(container),
        ports=" ".join(each.word("containerPort") for each in (ports.items if ports else ())),
        looks_at=" ".join(looks),
    )


def command(container: Placed | None) -> str:
    """``command`` and ``args`` on one line."""
    parts = [container.get(key) for key in ("command", "args")] if container else []
    return " ".join(word.text for part in parts if part for word in (part, *part.items)).strip()
