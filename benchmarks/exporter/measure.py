"""The two watchers over the same servers: vllm-exporter, and Prometheus itself."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from benchmarks.exporter.cpu import cpu_seconds, rss_mb
from benchmarks.exporter.looks import Look, lateness, looks, percentile
from benchmarks.exporter.servers import Servers, address
from demo import parts
from demo.child import Child, free_ports

INTERVAL = 15.0
# The first looks open connections and find out whether the server filters.
SETTLE_INTERVALS = 3


@dataclass(frozen=True)
class Cost:
    """What a watcher used: CPU seconds a look and a second, seconds late, megabytes."""

    looks: int
    forms: frozenset[str]
    cpu_per_look: float
    core_share: float
    late_p99: float
    rss: float


class _Watch:
    """Counts what a process uses between two moments, and which looks it made in between."""

    def __init__(self, pid: int, servers: Servers) -> None:
        self._pid = pid
        self._servers = servers
        self._at = time.time()
        self._cpu = cpu_seconds(pid)

    def cost(self) -> Cost:
        """From the beginning to now."""
        until = time.time()
        cpu = cpu_seconds(self._pid) - self._cpu
        with self._servers.log.open() as log:
            seen: list[Look] = [look for look in looks(log) if self._at <= look.at <= until]
        return Cost(
            looks=len(seen),
            forms=frozenset(look.form for look in seen),
            cpu_per_look=cpu / len(seen),
            core_share=cpu / (until - self._at),
            late_p99=percentile(lateness(seen, INTERVAL), 0.99),
            rss=rss_mb(self._pid),
        )


def exporter(folder: Path, servers: Servers, backends: int, seconds: float) -> tuple[Cost, float]:
    """What vllm-exporter costs, and the CPU seconds of one scrape of its own page."""
    port = free_ports(1)[0]
    fleet = {
        "backends": [
            {"name": f"gpu-{i}", "url": f"http://{address(i)}:{servers.port}"}
            for i in range(backends)
        ]
    }
    file = folder / "fleet.yml"
    file.write_text(yaml.safe_dump(fleet))
    command = [sys.executable, "-m", "exporter", "--config.file", str(file)]
    child = Child("exporter", [*command, f"--web.listen-address=127.0.0.1:{port}"], folder)
    try:
        child.wait_ready(f"http://127.0.0.1:{port}/-/ready", timeout=10 * INTERVAL)
        time.sleep(SETTLE_INTERVALS * INTERVAL)
        watch = _Watch(child.pid, servers)
        time.sleep(seconds)
        cost = watch.cost()
        before, began = cpu_seconds(child.pid), time.monotonic()
        requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).raise_for_status()
        while time.monotonic() - began < INTERVAL:
            time.sleep(0.1)
        of_scrape = cpu_seconds(child.pid) - before - cost.core_share * INTERVAL
    finally:
        child.stop()
    return cost, of_scrape


def prometheus(folder: Path, servers: Servers, targets: int, seconds: float) -> Cost:
    """What Prometheus costs that scrapes the same full pages at the same interval."""
    port = free_ports(1)[0]
    config = {
        "global": {"scrape_interval": f"{INTERVAL:g}s"},
        "scrape_configs": [
            {
                "job_name": "vllm",
                "static_configs": [
                    {"targets": [f"{address(i)}:{servers.port}" for i in range(targets)]}
                ],
            }
        ],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    command = [
        parts.find().prometheus,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    child = Child("prometheus", command, folder)
    try:
        child.wait_ready(f"http://127.0.0.1:{port}/-/ready")
        time.sleep(SETTLE_INTERVALS * INTERVAL)
        watch = _Watch(child.pid, servers)
        time.sleep(seconds)
        return watch.cost()
    finally:
        child.stop()
