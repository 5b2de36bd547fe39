"""What the documentation promises is what the code has."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

import exporter.families
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
    assert documented_metrics() == {**exporter.families.NAMES, **remediator.families.NAMES}


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
}


def known_settings() -> set[str]:
    known = {f"{section}.{name}" for section, of in SECTIONS.items() for name in of.model_fields}
    known -= {"backends.restart", "discovery.dns"}
    known |= {f"backends.restart.{name}" for name in schema.RestartSection.model_fields}
    return known | {f"discovery.dns.{name}" for name in schema.DnsSection.model_fields}


def test_every_setting_is_documented_and_no_other_is() -> None:
    assert documented_settings() == known_settings()


def test_the_example_is_valid_and_shows_every_section() -> None:
    example = load(ROOT / "fleet.example.yml")
    assert example.remediator is not None
    assert [backend.name for backend in example.backends] == ["gpu-a", "gpu-b", "router"]
    assert [source.name for source in example.discovery] == ["files"]


@pytest.mark.parametrize("file", sorted((ROOT / "docs").rglob("*.md")), ids=lambda f: f.name)
def test_links_inside_the_documentation_lead_somewhere(file: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", file.read_text()):
        assert (file.parent / target).exists(), target
