"""One running stack for the path tests: real Prometheus and Alertmanager, simulated servers, and a
gateway in front of two servers of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import parts
from demo.child import free_ports
from demo.servers import Server
from demo.stack import Pace, Stack
from tests.fleet import listeners
from tests.gateway.running import Gateway, Simulated

WAIT = 4.0
NAMES = ("gpu-a", "gpu-b", "gpu-c", "gpu-d")


@dataclass(frozen=True)
class RunningPath:
    """The running path: the stack, its servers by name, the gateway with servers of its own."""

    stack: Stack
    servers: dict[str, Server]
    gateway: Gateway


def eventually(what: Callable[[], object], *, within: float = 90.0) -> None:
    """Wait until something holds; the deadline only guards against hanging."""
    assert listeners.eventually(lambda: bool(what()), within, every=0.2), "it did not come to be"


@pytest.fixture(scope="package")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPath]:
    folder: Path = tmp_path_factory.mktemp("path")
    programs = parts.find()
    servers = {
        name: Server(name, port, folder)
        for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)
    }
    fleet = {
        "defaults": {"wait": f"{WAIT:.0f}s", "load_time": "60s"},
        "backends": [
            {"name": s.name, "url": s.url, "restart": {"command": s.restart_command}}
            for s in servers.values()
        ],
        # None is found: there is no such file.
        "discovery": [{"name": "files", "files": ["targets-*.json"]}],
        "exporter": {"interval": "500ms", "timeout": "500ms"},
        "remediator": {
            "mode": "act",
            "confirm_for": "2s",
            "answer_within": "2s",
            "recheck_every": "2s",
            "cool_down": "5s",
            "fleet_restarts": 10,
        },
    }
    try:
        for server in servers.values():
            server.start("--load-seconds", "1")
        for server in servers.values():
            server.wait_ready()
        with (
            Simulated(folder, "behind-a", steps_per_second=50) as one,
            Simulated(folder, "behind-b", steps_per_second=50) as two,
            Gateway(folder / "gateway", {"behind-a": one.url, "behind-b": two.url}) as gateway,
            Stack(folder, programs, fleet, Pace(), scraped={"vllm-gateway": gateway.url}) as stack,
        ):
            yield RunningPath(stack, servers, gateway)
    finally:
        for server in servers.values():
            server.stop()
