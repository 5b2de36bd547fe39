"""What a real Alertmanager makes of the shipped routes, sixty times as fast."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
WAIT = 60 / FASTER  # group_wait: what is not told in this time after it fired, is muted
TICK = 300 / FASTER  # group_interval: when what was muted is looked at again


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
    """A running Alertmanager and the three who listen to it."""

    url: str
    remediator: OnCall
    person: OnCall
    reader: OnCall
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

    def tell_all(self, told: Iterable[str]) -> None:
        """Alerts as ``name backend``, all at once."""
        for name, backend in (text.split() for text in told):
            self.tell(name, backend)

    def silence(self, backend: str) -> None:
        """What a person does who wants no more of one server."""
        now = datetime.now(UTC)
        matcher = {"name": "backend", "value": backend, "isRegex": False, "isEqual": True}
        said = {
            "matchers": [matcher],
            "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(hours=1)).isoformat(),
            "createdBy": "on-call",
            "comment": "mine",
        }
        requests.post(f"{self.url}/api/v2/silences", json=said, timeout=5).raise_for_status()

    def inhibited(self) -> set[tuple[str, str]]:
        """Alerts that are muted by another, by name and backend."""
        found = requests.get(f"{self.url}/api/v2/alerts", timeout=5).json()
        return {
            (alert["labels"]["alertname"], alert["labels"]["backend"])
            for alert in found
            if alert["status"]["inhibitedBy"]
        }


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """An Alertmanager with the shipped routes, of which `nobody` has a reader here."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with OnCall() as remediator, OnCall() as person, OnCall() as reader:
        listeners = {"remediator": remediator, "oncall": person, "nobody": reader}
        config: Any = faster(yaml.safe_load((RULES / "alertmanager.yml").read_text()))
        for receiver in config["receivers"]:
            listener = listeners[receiver["name"]]
            receiver["webhook_configs"] = [{"url": listener.url, "send_resolved": True}]
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
            yield Running(url, remediator, person, reader)
        finally:
            child.stop()


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One for all tests that do not mind each other's alerts."""
    with running(tmp_path_factory.mktemp("alertmanager")) as one:
        yield one


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Running]:
    """One that has told nobody anything yet."""
    with running(tmp_path) as one:
        yield one


def until(what: Callable[[], bool], within: float) -> None:
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.05)


def settle() -> None:
    """Until all that fires has been told or muted, and what is muted was looked at once more."""
    time.sleep(WAIT + 1.2 * TICK)


def test_the_remediator_alone_is_told_of_what_it_may_restart_at_once_and_again(
    fresh: Running,
) -> None:
    fresh.tell("VLLMEngineStuck", "gpu-a")
    fresh.tell("VLLMEngineDead", "gpu-b", age=1200.0)
    told_at_once = {"VLLMEngineStuck gpu-a", "VLLMEngineDead gpu-b"}
    until(lambda: told_at_once <= set(fresh.remediator.pages()), within=2)
    until(lambda: fresh.remediator.pages().count("VLLMEngineStuck gpu-a") > 1, within=3 * TICK)
    assert fresh.person.messages() == fresh.reader.messages() == []


def test_a_hang_that_is_repaired_is_no_page_and_one_information(fresh: Running) -> None:
    fresh.tell("VLLMEngineStuck", "gpu-a")
    until(lambda: fresh.remediator.pages() == ["VLLMEngineStuck gpu-a"], within=2)
    fresh.tell("VLLMEngineStuck", "gpu-a", firing=False)
    fresh.tell_all(["VLLMBackendRestarted gpu-a", "VLLMRemediated gpu-a"])
    settle()
    assert fresh.person.messages() == []
    assert fresh.reader.messages() == [("VLLMRemediated gpu-a",)]


FAILED = "VLLMRemediationFailed gpu-a"
BESIDE = [
    "VLLMRemediationHeld gpu-a",
    "VLLMEngineStillStuck gpu-a",
    "VLLMBackendDown gpu-a",
    "VLLMBackendUnresponsive gpu-a",
    "VLLMBackendUnjudged gpu-a",
    "VLLMEngineStuck gpu-a",
]


@pytest.mark.parametrize(
    "order",
    [[FAILED, *BESIDE], [*BESIDE, FAILED]],
    ids=["the failure first", "the failure last, within the wait"],
)
def test_a_hang_that_is_not_repaired_is_one_page_whatever_else_fires(
    fresh: Running, order: list[str]
) -> None:
    fresh.tell_all(order)
    settle()
    assert fresh.person.messages() == [(FAILED,)]
    # Long after, too: what came later is muted when it comes.
    fresh.tell("VLLMEngineStarved", "gpu-b")
    fresh.tell_all(BESIDE)
    settle()
    assert fresh.person.messages() == [(FAILED,), ("VLLMEngineStarved gpu-b",)]


def test_a_hang_that_is_held_back_is_one_page(fresh: Running) -> None:
    fresh.tell_all(["VLLMEngineStuck gpu-a", "VLLMRemediationHeld gpu-a"])
    until(lambda: fresh.person.messages() != [], within=3 * WAIT)
    fresh.tell("VLLMEngineStillStuck", "gpu-a")
    settle()
    assert fresh.person.messages() == [("VLLMRemediationHeld gpu-a",)]


def test_a_hang_without_a_remediator_is_one_page(fresh: Running) -> None:
    fresh.tell_all(["VLLMEngineStuck gpu-a", "VLLMEngineStillStuck gpu-a"])
    settle()
    assert fresh.person.messages() == [("VLLMEngineStillStuck gpu-a",)]


def test_a_storm_over_four_of_six_servers_is_one_page(fresh: Running) -> None:
    stuck, down = ("gpu-a", "gpu-b", "gpu-c"), "gpu-d"
    fresh.tell_all([f"VLLMEngineStuck {backend}" for backend in stuck])
    fresh.tell("VLLMBackendDown", down)
    fresh.tell("VLLMRemediationStorm", "")
    until(lambda: fresh.person.messages() != [], within=3 * WAIT)
    for backend in stuck:
        fresh.tell_all(
            f"{name} {backend}" for name in ("VLLMRemediationHeld", "VLLMEngineStillStuck")
        )
    fresh.tell("VLLMRemediationFailed", stuck[0])
    fresh.tell("VLLMBackendUnresponsive", "gpu-e")
    settle()
    assert fresh.person.messages() == [("VLLMRemediationStorm",)]


def test_what_is_silenced_is_no_page(fresh: Running) -> None:
    fresh.silence("gpu-a")
    fresh.tell_all([FAILED, *BESIDE, "VLLMRemediated gpu-a"])
    settle()
    for listener in (fresh.person, fresh.reader, fresh.remediator):
        assert listener.messages() == []


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
    "repaired says more than restarted": ("VLLMRemediated", {"VLLMBackendRestarted"}),
    "a loop says more than one restart": (
        "VLLMBackendRestartLoop",
        {
            "VLLMBackendRestarted",
            "VLLMForeignRestart",
            "VLLMForeignRestartRepeated",
            "VLLMGatewayResumeStorm",
        },
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
            "VLLMGatewayResumeStorm",
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
            "VLLMGatewayResumeStorm",
        },
    ),
    "no exporter says more than a stale one": ("VLLMExporterDown", {"VLLMExporterStale"}),
    "no bill says more than no new requests": ("VLLMGatewayLedgerBehind", {"VLLMGatewayRefusing"}),
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
    # An exporter, a storm and a bill are none of the servers: what they say holds for all of them.
    of_all = source in {"VLLMExporterDown", "VLLMRemediationStorm", "VLLMGatewayLedgerBehind"}
    assert ((target, beside) in inhibited) is of_all


def test_the_table_above_is_all_that_is_muted() -> None:
    rules = yaml.safe_load((RULES / "alertmanager.yml").read_text())["inhibit_rules"]
    muted = {
        (source, target)
        for rule in rules
        for source in re.findall(r"VLLM\w+", " ".join(rule["source_matchers"]))
        for target in re.findall(r"VLLM\w+", " ".join(rule["target_matchers"]))
    }
    assert muted == {(source, target) for source, targets in MUTED.values() for target in targets}
