"""The real program with its real neighbours: gateways and simulated servers as processes."""

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests
import yaml

from demo.child import free_ports

ROOT = Path(__file__).parents[2]
# Deadlines guard against hanging: a machine that is very busy is no failure.
SECONDS = 60.0
# Steps per second of a server whose streams are to be under way for long, and of one whose streams
# are to come to their end. A slow one is still far from seeming stalled; see SETTINGS.
SLOWLY, QUICKLY = 10.0, 500.0
ADMIN_TOKEN = "admin-token-of-the-tests"
SETTINGS: Mapping[str, object] = {
    "admin_token_file": "admin.token",
    "resume_key_file": "resume.key",
    "window": "8s",
    "margin": "3s",
    "propagation": "1s",
    "stall_after": "2s",
    "keep_alive": "1s",
    "look_every": "1s",
    "takeover_after": "2s",
}


class Process:
    """One program of ours in a session of its own; leaving it ends it."""

    def __init__(self, name: str, argv: Sequence[str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *argv],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def memory(self) -> int:
        """Bytes of memory in use."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found, status
        return int(found.group(1)) * 1024

    def term(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL, which also ends what is frozen."""
        self._process.kill()
        self._process.wait(SECONDS)

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for its end; its exit status."""
        return self._process.wait(seconds)


class Simulated(Process):
    """A simulated vLLM server. ``options`` are those of ``python -m demo.vllm``."""

    def __init__(self, folder: Path, name: str, *, port: int = 0, **options: object) -> None:
        argv = ["-m", "demo.vllm", "--port", str(port or free_ports(1)[0])]
        for option, value in options.items():
            argv += [f"--{option.replace('_', '-')}", str(value)]
        super().__init__(name, argv, folder)
        eventually(lambda: "ready url=" in self.said or not self.is_running, f"{name} is ready")
        found = re.search(r"ready url=(\S+)", self.said)
        assert found, self.said
        self.url = found.group(1)

    def state(self) -> Any:  # noqa: ANN401 -- JSON
        return requests.get(f"{self.url}/sim/state", timeout=SECONDS).json()

    @property
    def in_hand(self) -> int:
        """Requests that its engine works on, or will."""
        engines = self.state()["engines"]
        return sum(one["running"] + one["waiting"] + one["unseen"] for one in engines)

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(one["count"] for one in self.state()["requests"] if one["path"] == path)

    def pace(self, steps_per_second: float) -> None:
        """Generate so fast from now on: slowly while a test looks at what is under way."""
        self.fault("slow", steps_per_second=steps_per_second)

    def fault(self, name: str, **fields: object) -> None:
        requests.post(f"{self.url}/sim/{name}", json=fields, timeout=SECONDS).raise_for_status()


@dataclass(frozen=True)
class Row:
    """A request in the ledger."""

    request_id: str
    caller: str
    state: str
    prompt_tokens: int | None
    completion_tokens: int
    finish_reason: str


class Gateway(Process):
    """The real gateway, started on a fleet.yml of its own; see SETTINGS."""

    def __init__(
        self,
        folder: Path,
        backends: Mapping[str, str],
        *,
        name: str = "gateway",
        port: int | None = None,
        api_key_file: str | None = None,
        **settings: object,
    ) -> None:
        """``backends``: URLs by name. ``api_key_file`` is that of all of them."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "admin.token").write_text(ADMIN_TOKEN)
        self.folder = folder
        self.file = folder / f"{name}.yml"
        fleet = {
            "backends": [
                {"name": each, "url": url, "api_key_file": api_key_file}
                for each, url in backends.items()
            ],
            "gateway": {**SETTINGS, "journal_folder": f"{name}.journal", **settings},
        }
        self.file.write_text(yaml.safe_dump(fleet))
        self.port = free_ports(1)[0] if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        argv = ["-m", "gateway", "--config.file", str(self.file)]
        super().__init__(name, [*argv, "--web.listen-address", f"127.0.0.1:{self.port}"], folder)
        try:
            eventually(lambda: self.status("/-/healthy") == 200 or not self.is_running, name)
            assert self.is_running, self.said
        except BaseException:
            self.kill()
            raise

    def status(self, path: str) -> int:
        """What a GET is answered with; 0 where nobody answers."""
        try:
            return requests.get(self.url + path, timeout=SECONDS).status_code
        except requests.ConnectionError:
            return 0

    def term_twice(self) -> None:
        """Tell it to end, and to do so at once: what is in flight is cut."""
        self.term()
        eventually(lambda: self.status("/-/ready") == 503, "it was told")
        self.term()

    def post(self, path: str, body: object = None, **headers: str) -> requests.Response:
        named = {"content-type": "application/json"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return requests.post(self.url + path, data=data, headers=named, timeout=SECONDS)

    def admin(self, path: str, method: str = "GET") -> Any:  # noqa: ANN401 -- JSON
        answer = requests.request(
            method,
            f"{self.url}/admin/{path}",
            headers={"authorization": f"Bearer {ADMIN_TOKEN}"},
            timeout=SECONDS,
        )
        answer.raise_for_status()
        return answer.json()

    def in_flight(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.admin("inflight")
        return rows

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``vllm-gateway drain`` or the like against it."""
        argv = [sys.executable, "-m", "gateway", *words]
        argv += ["--url", self.url, "--config.file", str(self.file)]
        return subprocess.run(
            argv, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def report(self, *words: str) -> Any:  # noqa: ANN401 -- JSON
        """What ``vllm-gateway ledger report`` prints."""
        return json.loads(self.book("report", "--format", "json", *words).stdout)

    def book(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``vllm-gateway ledger`` on its database; the status must be 0."""
        argv = [sys.executable, "-m", "gateway", "ledger", *words, "--config.file", str(self.file)]
        return subprocess.run(
            argv, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=True
        )

    def ledger(self) -> dict[str, Row]:
        """All requests in the ledger's database, by their ids."""
        return ledger(self.folder / "gateway.db")

    def billed(self, request_id: str, state: str) -> Row:
        """A request's row, once it has come to this state."""
        eventually(
            lambda: request_id in (rows := self.ledger()) and rows[request_id].state == state,
            f"{request_id} is {state}",
        )
        return self.ledger()[request_id]


def ledger(database: Path) -> dict[str, Row]:
    """Read a ledger, by request ids; a request of two callers must not be in it."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT request_id, caller, state, prompt_tokens, completion_tokens, finish_reason"
            " FROM requests"
        ).fetchall()
    found = {row[0]: Row(*row) for row in rows}
    assert len(found) == len(rows)
    return found


def eventually(condition: Any, what: str = "", seconds: float = SECONDS) -> None:  # noqa: ANN401
    """Wait until the condition holds; the deadline is for a machine that is very busy."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
