"""The shipped rules, read once for all tests of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules"
RULE_FILES = (RULES / "recording.yml", RULES / "alerts.yml")
# For those who run no exporter, instead of the others.
DIRECT = RULES / "direct.yml"
TEST_FILES = sorted((RULES / "tests").glob("*.yml"))
RUNBOOK = ROOT / "docs" / "runbook.md"


@dataclass(frozen=True)
class Alert:
    """One alerting rule."""

    name: str
    expr: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class Recording:
    """One recording rule."""

    name: str
    expr: str


@dataclass(frozen=True)
class Check:
    """What a promtool test says of one alert at one moment."""

    alert: str
    fires: bool


def groups(*files: Path) -> list[dict[str, Any]]:
    return [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]


def _rules() -> Iterator[dict[str, Any]]:
    for group in groups(*RULE_FILES, DIRECT):
        yield from group["rules"]


ALERTS = tuple(
    Alert(rule["alert"], rule["expr"], rule["labels"], rule["annotations"])
    for rule in _rules()
    if "alert" in rule
)
RECORDINGS = tuple(Recording(rule["record"], rule["expr"]) for rule in _rules() if "record" in rule)
DIRECT_NAMES = frozenset(
    rule.get("alert") or rule["record"] for group in groups(DIRECT) for rule in group["rules"]
)
EXPRESSIONS = {
    **{alert.name: alert.expr for alert in ALERTS},
    **{recording.name: recording.expr for recording in RECORDINGS},
}
