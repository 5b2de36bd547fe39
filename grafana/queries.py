"""Every query of the built dashboards, as Prometheus would get it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grafana.build import BUILT

# What Grafana puts in for variables and macros when a dashboard is opened as it is shipped.
DEFAULTS: Mapping[str, str] = {
    "backend": ".*",
    "model": ".*",
    "__rate_interval": "1m15s",
    "__interval": "1m",
    "__range": "1h",
}
VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Query:
    """One query and the panel or annotation that it belongs to; ``expr`` has no variables left."""

    panel: str
    expr: str


def queries() -> list[Query]:
    """All queries. Raises KeyError for a variable that has no default."""
    files = sorted(BUILT.glob("*.json"))
    return [query for file in files for query in _of(json.loads(file.read_text("utf-8")))]


def _of(dashboard: Mapping[str, Any]) -> Iterator[Query]:
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield Query(panel["title"], substituted(target["expr"]))
    for annotation in dashboard["annotations"]["list"]:
        yield Query(f"annotation {annotation['name']}", substituted(annotation["expr"]))


def substituted(expr: str) -> str:
    """The expression with every variable replaced by its default."""
    return VARIABLE.sub(lambda found: DEFAULTS[found[1]], expr)
