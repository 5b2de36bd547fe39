"""What the documentation promises is what the code has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

import exporter.families
import gateway.families
import remediator.families
from fleet import schema
from fleet.settings import load
from fleet.state import State

ROOT = Path(__file__).parents[2]
METRICS = (ROOT / "docs" / "metrics.md").read_text()
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \|(?P<labels>[^|]*)\| (?:gauge|counter|histogram) \|", re.MULTILINE
)


def documented_metrics() -> dict[str, tuple[str, ...]]:
    return {
        row["name"]: tuple(re.findall(r"`(\w+)`", row["labels"])) for row in ROW.finditer(METRICS)
    }


def test_every_metric_is_documented_with_its_labels_and_no_other_is() -> None:
    assert documented_metrics() == {
        **exporter.families.NAMES,
        **remediator.families.NAMES,
        **gateway.families.NAMES,
    }


def test_every_state_is_documented() -> None:
    table = METRICS.split("## States")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(State)


def documented_settings() -> set[str]:
    found = set()
    section = ""
    for line in CONFIGURATION.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        row = re.match(r"\| `([\w.]+)` \|", line)
        if row:
            found.add(f"{section}.{row[1]}")
    return found


SECTIONS: dict[str, type[BaseModel]] = {
    "backends": schema.BackendSection,
    "defaults": schema.DefaultsSection,
    "discovery": schema.DiscoverySection,
    "exporter": schema.ExporterSection,
    "remediator": schema.RemediatorSection,
    "gateway": schema.GatewaySection,
}


def known_settings() -> set[str]:
    return {name for section, of in SECTIONS.items() for name in settings_of(of, f"{section}.")}


def settings_of(section: type[BaseModel], prefix: str) -> Iterator[str]:
    """Every setting by its path; a section inside a section stands for what is in it."""
    for name, field in section.model_fields.items():
        inner = [of for of in get_args(field.annotation) if issubclass_of_section(of)]
        if inner:
            yield from settings_of(inner[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def issubclass_of_section(of: object) -> bool:
    return isinstance(of, type) and issubclass(of, schema.Section)


def test_every_setting_is_documented_and_no_other_is() -> None:
    assert documented_settings() - {"backends.restart"} == known_settings()


def test_the_example_is_valid_and_shows_every_section() -> None:
    example = load(ROOT / "fleet.example.yml")
    assert example.remediator is not None
    assert example.gateway is not None
    assert [backend.name for backend in example.backends] == ["gpu-a", "gpu-b", "router"]
    assert [source.name for source in example.discovery] == ["files"]


@pytest.mark.parametrize("file", sorted((ROOT / "docs").rglob("*.md")), ids=lambda f: f.name)
def test_links_inside_the_documentation_lead_somewhere(file: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", file.read_text()):
        assert (file.parent / target).exists(), target
