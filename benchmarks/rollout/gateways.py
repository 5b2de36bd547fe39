"""Two replicas of the gateway behind nginx, with one ledger, and their restarts."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from benchmarks.gateway.peers import gateway_command, nginx_command
from benchmarks.rollout.fleet import restart
from benchmarks.rollout.score import Billed
from demo.child import Child, free_ports
from demo.servers import Server

REPLICAS = 2
# From SIGTERM to the end, before and after it is shortened.
WINDOW, MARGIN, PROPAGATION = 20.0, 5.0, 3.0
SHORTEST_WINDOW, SHORTEST_PART = 4.0, 1.0
DRAIN_SECONDS = 30.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.1
# A gateway that closes answers 503 before it does anything: the other one takes the request.
NEXT = "proxy_next_upstream error timeout http_503 non_idempotent;"


@dataclass(frozen=True)
class Replica:
    """One gateway: its port and the command that starts it."""

    port: int
    command: Sequence[str]

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"


class Gateways:
    """The replicas, and what a remediator asks of them. ``port`` is nginx's."""

    def __init__(self, folder: Path, servers: Sequence[Server], scale: float) -> None:
        self._folder = folder
        self.port, *ports = free_ports(1 + REPLICAS)
        settings = {
            "resume_key_file": str(folder / "resume-keys"),
            "window": _duration(max(SHORTEST_WINDOW, WINDOW * scale)),
            "margin": _duration(max(SHORTEST_PART, MARGIN * scale)),
            "propagation": _duration(max(SHORTEST_PART, PROPAGATION * scale)),
            "look_every": "1s",
        }
        upstreams = {server.name: server.port for server in servers}
        self._replicas = [
            Replica(port, gateway_command(folder, port, upstreams, **settings)) for port in ports
        ]
        self._running: dict[int, Child] = {}

    def start(self) -> None:
        """Start the replicas, then nginx."""
        for replica in self._replicas:
            self._start(replica)
        ports = [replica.port for replica in self._replicas]
        command = nginx_command(self._folder, self.port, ports, server="max_fails=0", location=NEXT)
        self._running[self.port] = nginx = Child("nginx", command, self._folder)
        nginx.wait_ready(f"http://127.0.0.1:{self.port}/v1/models")

    def stop(self) -> None:
        """End all of it."""
        for child in reversed(self._running.values()):
            child.stop()

    def restart_backend(self, server: Server) -> None:
        """As the remediator does it: drain, restart, undrain."""
        for replica in self._replicas:
            self._order("POST", replica, server, "/drain")
        deadline = time.monotonic() + DRAIN_SECONDS
        while any(self._order("GET", one, server, "") for one in self._replicas):
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_SECONDS)
        restart(server)
        for replica in self._replicas:
            self._order("POST", replica, server, "/undrain")

    def restart_themselves(self) -> None:
        """One after the other, each within its window."""
        for replica in self._replicas:
            self._running[replica.port].stop(STOP_SECONDS)
            self._start(replica)

    def billed(self) -> dict[str, Billed]:
        """What the ledger charges for each request; read when the gateways have ended."""
        with closing(sqlite3.connect(self._folder / "gateway.db")) as database:
            rows = database.execute(
                "SELECT request_id, prompt_tokens, completion_tokens FROM requests"
            ).fetchall()
        return {name: Billed(prompt or 0, completion) for name, prompt, completion in rows}

    def _start(self, replica: Replica) -> None:
        child = Child(f"gateway-{replica.port}", replica.command, self._folder)
        self._running[replica.port] = child
        child.wait_ready(f"{replica.url}/-/ready")

    def _order(self, method: str, replica: Replica, server: Server, order: str) -> int:
        """How many requests of this replica are at a backend, after an order about it."""
        token = (self._folder / "admin-token").read_text().strip()
        answer = requests.request(
            method,
            f"{replica.url}/admin/backends/{server.name}{order}",
            json={} if method == "POST" else None,
            headers={"authorization": f"Bearer {token}"},
            timeout=10,
        )
        answer.raise_for_status()
        told: Mapping[str, object] = answer.json()
        return int(str(told["in_flight"]))


@contextmanager
def gateways(folder: Path, servers: Sequence[Server], scale: float) -> Iterator[Gateways]:
    """The replicas and nginx, for a while."""
    found = Gateways(folder, servers, scale)
    try:
        found.start()
        yield found
    finally:
        found.stop()


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"
