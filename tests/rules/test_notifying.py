"""What a real Alertmanager makes of the shipped routes, sixty times as fast."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from demo import parts
from demo.child import Child, free_ports
from demo.oncall import OnCall
from tests.rules.shipped import ALERTS, RULES

FASTER = 60
UNITS = {"s": 1, "m": 60, "h": 3600}
LATE = 600 / FASTER


def faster(tree: object) -> object:
    """The configuration with every duration divided."""
    match tree:
        case dict():
            return {key: faster(value) for key, value in tree.items()}
        case list():
            return [faster(value) for value in tree]
        case str() if found := re.fullmatch(r"(\d+)([smh])", tree):
            return f"{int(found[1]) * UNITS[found[2]] * 1000 // FASTER}ms"
    return tree


@dataclass
class Running:
    """A running Alertmanager and the two who listen to it."""

    url: str
    remediator: OnCall
    person: OnCall
    began: dict[str, datetime] = field(default_factory=dict)

    def tell(self, name: str, backend: str, *, firing: bool = True, age: float = 0.0) -> None:
        """What Prometheus would send; an alert keeps its start while it lasts."""
        now = datetime.now(UTC)
        began = self.began.setdefault(backend + name, now - timedelta(seconds=age))
        if not firing:
            del self.began[backend + name]
        labels = next(alert.labels for alert in ALERTS if alert.name == name)
        alert = {
            "labels": {"alertname": name, "backend": backend, "engine": "0", **labels},
            "startsAt": began.isoformat(),
            "endsAt": (now if not firing else now + timedelta(minutes=5)).isoformat(),
        }
        requests.post(f"{self.url}/api/v2/alerts", json=[alert], timeout=5).raise_for_status()

    def inhibited(self) -> set[tuple[str, str]]:
        """Alerts that are muted by another, by name and backend."""
        found = requests.get(f"{self.url}/api/v2/alerts", timeout=5).json()
        return {
            (alert["labels"]["alertname"], alert["labels"]["backend"])
            for alert in found
            if alert["status"]["inhibitedBy"]
        }


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with OnCall() as remediator, OnCall() as person:
        config: Any = faster(yaml.safe_load((RULES / "alertmanager.yml").read_text()))
        for receiver in config["receivers"]:
            for webhook in receiver.get("webhook_configs", ()):
                listener = remediator if receiver["name"] == "remediator" else person
                webhook.pop("http_config", None)
                webhook["url"] = listener.url
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
        child = Child(
            "alertmanager",
            [
                parts.find().alertmanager,
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            folder,
        )
        try:
            child.wait_ready(f"{url}/-/ready")
            yield Running(url, remediator, person)
        finally:
            child.stop()


def until(what: Callable[[], bool], within: float) -> None:
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.05)


def test_the_remediator_is_told_at_once_and_again_and_a_person_only_of_what_lasts(
    alertmanager: Running,
) -> None:
    remediator, person = alertmanager.remediator, alertmanager.person
    began = time.monotonic()
    alertmanager.tell("VLLMEngineStuck", "healed")
    alertmanager.tell("VLLMEngineStuck", "lasting")
    alertmanager.tell("VLLMEngineStuck", "before-alertmanager-restarted", age=2 * LATE)
    told_at_once = {f"VLLMEngineStuck {name}" for name in ("healed", "lasting")}
    until(lambda: told_at_once <= set(remediator.pages()), within=2)

    # Whose ten minutes were over before Alertmanager knew of it is not waited for again.
    until(lambda: person.pages() == ["VLLMEngineStuck before-alertmanager-restarted"], within=3)

    time.sleep(LATE / 2)
    alertmanager.tell("VLLMEngineStuck", "healed", firing=False)
    until(lambda: remediator.pages().count("VLLMEngineStuck lasting") > 1, within=LATE)
    assert "VLLMEngineStuck lasting" not in person.pages()

    until(lambda: "VLLMEngineStuck lasting" in person.pages(), within=LATE)
    assert time.monotonic() - began >= LATE - 0.1
    # Longer than the first group_wait of the healed one, and a tick more.
    time.sleep(max(0.0, began + 1.5 * LATE - time.monotonic()))
    assert "VLLMEngineStuck healed" not in person.pages()


MUTED: Mapping[str, tuple[str, set[str]]] = {
    "stuck says more than quiet and starved": (
        "VLLMEngineStuck",
        {"VLLMEngineQuiet", "VLLMEngineStarved"},
    ),
    "dead says more than down": (
        "VLLMEngineDead",
        {
            "VLLMEngineQuiet",
            "VLLMEngineStarved",
            "VLLMBackendDown",
            "VLLMBackendUnresponsive",
            "VLLMBackendUnjudged",
        },
    ),
    "down says more than silent": (
        "VLLMBackendDown",
        {
            "VLLMEngineQuiet",
            "VLLMEngineStarved",
            "VLLMBackendUnresponsive",
            "VLLMBackendUnjudged",
        },
    ),
    "a loop says more than one restart": (
        "VLLMBackendRestartLoop",
        {"VLLMBackendRestarted", "VLLMForeignRestart", "VLLMForeignRestartRepeated"},
    ),
    "a person was told by the first": ("VLLMDirectEngineStuck", {"VLLMDirectEngineStillStuck"}),
    "held says more than not restarted": ("VLLMRemediationHeld", {"VLLMEngineStillStuck"}),
    "failed says more than held, stuck, down and silent": (
        "VLLMRemediationFailed",
        {
            "VLLMRemediationHeld",
            "VLLMEngineStillStuck",
            "VLLMBackendDown",
            "VLLMBackendUnresponsive",
            "VLLMBackendUnjudged",
        },
    ),
    "a storm says more than what it does to one": (
        "VLLMRemediationStorm",
        {
            "VLLMRemediationHeld",
            "VLLMRemediationFailed",
            "VLLMEngineStillStuck",
            "VLLMBackendDown",
            "VLLMBackendUnresponsive",
        },
    ),
    "no exporter says more than a stale one": ("VLLMExporterDown", {"VLLMExporterStale"}),
}


@pytest.mark.parametrize(
    ("source", "target"),
    [(source, target) for source, targets in MUTED.values() for target in sorted(targets)],
)
def test_what_says_more_mutes_what_says_less_of_the_same_server(
    alertmanager: Running, source: str, target: str
) -> None:
    here, beside = f"{source}-{target}", f"beside-{source}-{target}"
    alertmanager.tell(source, here)
    alertmanager.tell(target, here)
    alertmanager.tell(target, beside)
    inhibited = alertmanager.inhibited()
    alertmanager.tell(source, here, firing=False)
    assert (target, here) in inhibited
    assert (source, here) not in inhibited
    # An exporter is not one of the servers: what it says holds for all of them.
    assert ((target, beside) in inhibited) is (source == "VLLMExporterDown")


def test_the_table_above_is_all_that_is_muted() -> None:
    rules = yaml.safe_load((RULES / "alertmanager.yml").read_text())["inhibit_rules"]
    muted = {
        (re.findall(r"VLLM\w+", source)[0], target)
        for rule in rules
        for source in rule["source_matchers"]
        for target in re.findall(r"VLLM\w+", " ".join(rule["target_matchers"]))
    }
    assert muted == {(source, target) for source, targets in MUTED.values() for target in targets}
