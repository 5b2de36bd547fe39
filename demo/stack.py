"""The whole path for a given fleet: exporter, Prometheus, Alertmanager, remediator, on loopback.

The rules and the routes are the shipped ones. Only addresses and the pace of routing differ.
"""

import contextlib
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import requests
import yaml

from demo.child import Child, free_ports
from demo.oncall import OnCall
from demo.parts import Parts

ROOT = Path(__file__).resolve().parents[1]
RULES = (ROOT / "rules" / "recording.yml", ROOT / "rules" / "alerts.yml")
ROUTES = ROOT / "rules" / "alertmanager.yml"
REMEDIATOR_PATH = "/api/alerts"


@dataclass(frozen=True)
class Pace:
    """How often Prometheus scrapes and evaluates, and how soon Alertmanager says more of a group.

    All are durations as their files write them. The waits of notifications are the shipped ones.
    """

    scrape: str = "250ms"
    evaluation: str = "250ms"
    group_interval: str = "1s"


class Stack:
    """A running stack in one folder; a context manager that ends what it started.

    ``fleet`` is the tree of a fleet.yml without the parts the stack fills in: the remediator's
    token, database and Alertmanager.
    """

    def __init__(
        self,
        folder: Path,
        parts: Parts,
        fleet: Mapping[str, Any],
        pace: Pace,
        *,
        scraped: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``scraped``: URLs that Prometheus reads besides, by the names of their jobs."""
        self.folder = folder
        self._scraped = scraped
        self._parts = parts
        self._fleet = fleet
        self._pace = pace
        exporter, prometheus, alertmanager, remediator = free_ports(4)
        self.exporter = f"http://127.0.0.1:{exporter}"
        self.prometheus = f"http://127.0.0.1:{prometheus}"
        self.alertmanager = f"http://127.0.0.1:{alertmanager}"
        self.remediator = f"http://127.0.0.1:{remediator}"
        self.fleet_file = folder / "fleet.yml"
        self.token_file = folder / "remediator.token"
        self.oncall = OnCall()
        self._children: list[Child] = []
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start everything and wait until each part is ready."""
        try:
            self._exit.enter_context(self.oncall)
            self._write_files()
            self._start()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything that was started, the last first."""
        self._exit.close()

    def child(self, name: str) -> Child:
        """The running program of this name."""
        return next(child for child in self._children if child.name == name)

    def alerts(self) -> list[dict[str, Any]]:
        """Prometheus' alerts now, pending and firing."""
        found = requests.get(f"{self.prometheus}/api/v1/alerts", timeout=30).json()
        return list(found["data"]["alerts"])

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result vector of an instant query."""
        answer = requests.get(
            f"{self.prometheus}/api/v1/query", params={"query": expression}, timeout=30
        ).json()
        return list(answer["data"]["result"])

    def ever(self, expression: str, *, since: float) -> list[dict[str, Any]]:
        """The series that a query gave at any second from ``since`` (Unix seconds) until now."""
        span = {"start": str(since), "end": str(time.time()), "step": "1"}
        answer = requests.get(
            f"{self.prometheus}/api/v1/query_range",
            params={"query": expression, **span},
            timeout=10,
        )
        answer.raise_for_status()
        return list(answer.json()["data"]["result"])

    def _write_files(self) -> None:
        self.token_file.write_text(secrets.token_urlsafe(32))
        self.token_file.chmod(0o600)
        remediator = {
            "token_file": str(self.token_file),
            "alertmanager": self.alertmanager,
            **self._fleet["remediator"],
        }
        _dump(self.fleet_file, {**self._fleet, "remediator": remediator})
        _dump(self.folder / "prometheus.yml", self._prometheus_config())
        _dump(self.folder / "alertmanager.yml", self._alertmanager_config())

    def _prometheus_config(self) -> dict[str, Any]:
        def job(name: str, url: str) -> dict[str, Any]:
            return {"job_name": name, "static_configs": [{"targets": [url.split("//")[1]]}]}

        return {
            "global": {
                "scrape_interval": self._pace.scrape,
                "scrape_timeout": self._pace.scrape,
                "evaluation_interval": self._pace.evaluation,
            },
            "rule_files": [str(rules) for rules in RULES],
            "alerting": {
                "alertmanagers": [
                    {"static_configs": [{"targets": [self.alertmanager.split("//")[1]]}]}
                ]
            },
            "scrape_configs": [
                job("vllm-exporter", self.exporter),
                job("vllm-remediator", self.remediator),
                *(job(name, url) for name, url in self._scraped.items()),
            ],
        }

    def _alertmanager_config(self) -> dict[str, Any]:
        config: dict[str, Any] = yaml.safe_load(ROUTES.read_text())
        for receiver in config["receivers"]:
            for webhook in receiver.get("webhook_configs", []):
                if webhook["url"].endswith(REMEDIATOR_PATH):
                    webhook["url"] = f"{self.remediator}{REMEDIATOR_PATH}"
                    webhook["http_config"]["authorization"]["credentials_file"] = str(
                        self.token_file
                    )
                else:
                    webhook["url"] = self.oncall.url
                    webhook.pop("http_config", None)
        _set_group_interval(config["route"], self._pace.group_interval)
        return config

    def _start(self) -> None:
        self._run(
            "alertmanager",
            self._parts.alertmanager,
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'alertmanager'}",
            f"--web.listen-address={_address(self.alertmanager)}",
            "--cluster.listen-address=",
        )
        for program, url in (("exporter", self.exporter), ("remediator", self.remediator)):
            self._run(
                program,
                *(sys.executable, "-m", program),
                f"--config.file={self.fleet_file}",
                f"--web.listen-address={_address(url)}",
            )
        self._run(
            "prometheus",
            self._parts.prometheus,
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'prometheus'}",
            f"--web.listen-address={_address(self.prometheus)}",
        )
        for child in self._children:
            child.wait_ready(f"{getattr(self, child.name)}/-/ready")

    def _run(self, name: str, *argv: str) -> None:
        child = Child(name, argv, self.folder, env={"PYTHONPATH": str(ROOT)})
        self._children.append(child)
        self._exit.callback(child.stop)


def _address(url: str) -> str:
    return url.removeprefix("http://")


def _dump(file: Path, tree: Mapping[str, Any]) -> None:
    file.write_text(yaml.safe_dump(tree, sort_keys=False))


def _set_group_interval(route: dict[str, Any], duration: str) -> None:
    """A route without one of its own inherits its parent's, which is set first."""
    route["group_interval"] = duration
    for child in route.get("routes", []):
        _set_group_interval(child, duration)
