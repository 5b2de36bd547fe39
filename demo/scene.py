"""What is to be seen at one moment of the demo, gathered from the running parts over HTTP."""

from dataclasses import dataclass
from typing import Any

import requests

from demo.servers import Server
from demo.stack import Stack


@dataclass(frozen=True)
class Scene:
    """One moment: what each part says of itself, as the JSON of its API.

    ``servers`` is by name, None for one that does not serve; the lists are as the programs give
    them: the exporter's backends, Prometheus' alerts, the names of backends that a silence covers,
    the remediator's decisions and attempts (newest first), and what a person was told.
    """

    servers: dict[str, dict[str, Any] | None]
    backends: list[dict[str, Any]]
    alerts: list[dict[str, Any]]
    silenced: frozenset[str]
    decisions: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    pages: list[str]

    def firing(self, alertname: str, backend: str) -> dict[str, Any] | None:
        """The alert of this name for this backend, if it is firing."""
        return next(
            (
                alert
                for alert in self.alerts
                if alert["state"] == "firing"
                and alert["labels"]["alertname"] == alertname
                and alert["labels"].get("backend") == backend
            ),
            None,
        )

    def state(self, backend: str) -> str:
        """The exporter's state of this backend, empty before its first look."""
        return next((str(b["state"]) for b in self.backends if b["backend"] == backend), "")

    def attempt(self, backend: str) -> str:
        """The state of the remediator's latest attempt on this backend, empty if there is none."""
        return next((str(a["state"]) for a in self.attempts if a["backend"] == backend), "")


def look(stack: Stack, servers: list[Server]) -> Scene:
    """Ask every part once."""
    return Scene(
        servers={server.name: server.state() for server in servers},
        backends=_get(f"{stack.exporter}/api/backends"),
        alerts=stack.alerts(),
        silenced=_silenced(stack),
        decisions=_get(f"{stack.remediator}/api/decisions"),
        attempts=_get(f"{stack.remediator}/api/attempts"),
        pages=stack.oncall.pages(),
    )


def _silenced(stack: Stack) -> frozenset[str]:
    return frozenset(
        matcher["value"]
        for silence in _get(f"{stack.alertmanager}/api/v2/silences")
        if silence["status"]["state"] == "active"
        for matcher in silence["matchers"]
        if matcher["name"] == "backend"
    )


def _get(url: str) -> list[dict[str, Any]]:
    answer = requests.get(url, timeout=5)
    answer.raise_for_status()
    return list(answer.json())
