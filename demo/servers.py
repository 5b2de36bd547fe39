"""The simulated model servers of the demo: started, loaded and frozen over HTTP."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from demo.child import NotReadyError

ROOT = Path(__file__).resolve().parents[1]
READY_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """One simulated vLLM, kept by ``python -m demo.vllm.service`` in ``folder`` under its name."""

    name: str
    port: int
    folder: Path

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def restart_command(self) -> list[str]:
        """What a person, or the remediator, would type to restart it."""
        return [*self._service("restart"), self.name]

    def start(self, *options: str) -> None:
        """Start it; it loads its model first, as ``wait_ready`` knows."""
        subprocess.run(
            [*self._service("start"), self.name, "--", f"--port={self.port}", *options],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )

    def stop(self) -> None:
        """End it, whatever state it is in."""
        subprocess.run(
            [*self._service("stop"), self.name], cwd=ROOT, check=False, capture_output=True
        )

    def wait_ready(self) -> None:
        """Wait until it serves. Raises NotReadyError."""
        deadline = time.monotonic() + READY_SECONDS
        while self.state() is None:
            if time.monotonic() > deadline:
                raise NotReadyError(f"{self.name} does not serve at {self.url}")
            time.sleep(0.1)

    def fault(self, name: str, **body: object) -> None:
        """Do something to it: freeze, thaw, prefill, batch, slow, die, mute."""
        requests.post(f"{self.url}/sim/{name}", json=body, timeout=5).raise_for_status()

    def state(self) -> dict[str, Any] | None:
        """What it knows of itself, or None while it does not serve."""
        try:
            return dict(requests.get(f"{self.url}/sim/state", timeout=2).json())
        except (requests.RequestException, ValueError):
            return None

    def _service(self, verb: str) -> list[str]:
        return [sys.executable, "-m", "demo.vllm.service", verb, "--dir", str(self.folder)]


def short_requests(state: dict[str, Any]) -> int:
    """How many requests of ours, other than reads of its pages, a server has received."""
    return sum(
        seen["count"]
        for seen in state["requests"]
        if seen["user_agent"].startswith("vllm-lifeguard")
        and seen["path"] not in ("/metrics", "/metrics/", "/health", "/is_paused", "/v1/models")
    )
