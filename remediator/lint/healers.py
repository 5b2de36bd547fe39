"""Containers that restart other containers: autoheal and its kin, and watchtower.

willfarrell/docker-autoheal (README): restarts what Docker marked unhealthy, among the containers
with the label `autoheal=true`; AUTOHEAL_CONTAINER_LABEL names another label, or is `all`. It looks
every AUTOHEAL_INTERVAL (5) seconds. qmcgaw/deunhealth does the same by the label
`deunhealth.restart.on.unhealthy`. containrrr/watchtower restarts a container when its image has
changed, unless `com.centurylinklabs.watchtower.enable` is false; with WATCHTOWER_LABEL_ENABLE only
where it is true; with WATCHTOWER_MONITOR_ONLY never.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.placed_yaml import Placed
from remediator.lint.rule import RULES, Rule

HEALER = re.compile(r"autoheal|deunhealth|healmydocker", re.IGNORECASE)
DEUNHEALTH = "deunhealth.restart.on.unhealthy"
WATCHTOWER = "com.centurylinklabs.watchtower.enable"
YES = frozenset({"true", "yes", "1", "on"})


def pairs(service: Placed, key: str) -> Mapping[str, Placed]:
    """``labels`` or ``environment``, as a mapping or as a list of NAME=VALUE."""
    found = service.get(key)
    if found is None:
        return {}
    listed = {}
    for item in found.items:
        name, _, value = item.text.partition("=")
        listed[name.strip()] = Placed(item.line, value.strip())
    return {**found.entries, **listed}


def _says(placed: Placed | None) -> bool:
    return placed is not None and placed.text.lower() in YES


@dataclass(frozen=True)
class Healer:
    """A container that restarts unhealthy ones; ``line`` 0 stands for one in another file."""

    image: str
    line: int
    labels: frozenset[str]
    all_line: int = 0

    @classmethod
    def of(cls, service: Placed) -> "Healer | None":
        """The healer that a service is."""
        image = service.get("image")
        if image is None or not HEALER.search(image.text):
            return None
        chosen = pairs(service, "environment").get("AUTOHEAL_CONTAINER_LABEL")
        takes_all = chosen is not None and chosen.text.lower() == "all"
        label = chosen.text if chosen and not takes_all else "autoheal"
        labels = frozenset({label, DEUNHEALTH})
        return cls(image.text, image.line, labels, chosen.line if chosen and takes_all else 0)

    @classmethod
    def elsewhere(cls) -> "Healer":
        """The one that a label is meant for, where a file has none itself."""
        return cls("an autoheal container", 0, frozenset({"autoheal", DEUNHEALTH}))

    @property
    def takes_all(self) -> bool:
        """Whether it restarts unhealthy containers without a label."""
        return self.all_line > 0

    def label_of(self, service: Placed) -> Placed | None:
        """The label by which this service asks to be healed."""
        labels = pairs(service, "labels")
        return next((labels[name] for name in sorted(self.labels) if _says(labels.get(name))), None)

    def fix(self, how: str) -> str:
        """The rule's fix, with what to do."""
        return RULES[Rule.COMPOSE_AUTOHEAL].fix.format(how=how)


@dataclass(frozen=True)
class Updater:
    """A container that restarts others when their images change."""

    image: str
    line: int
    by_label: bool

    @classmethod
    def of(cls, service: Placed) -> "Updater | None":
        """The updater that a service is; None for one that only tells."""
        image = service.get("image")
        environment = pairs(service, "environment")
        tells = _says(environment.get("WATCHTOWER_MONITOR_ONLY"))
        if image is None or "watchtower" not in image.text.lower() or tells:
            return None
        return cls(image.text, image.line, _says(environment.get("WATCHTOWER_LABEL_ENABLE")))

    def takes(self, service: Placed) -> bool:
        """Whether it restarts this service; an image named by its digest never changes."""
        label = pairs(service, "labels").get(WATCHTOWER)
        changes = "@sha256:" not in service.word("image") and service.get("image") is not None
        return changes and (_says(label) if self.by_label else label is None or _says(label))
