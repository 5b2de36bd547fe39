"""I/O: what is around a remediator in one incident: a server that is stuck, and Alertmanager.

What is counted in the end is what these saw, and the file that the restart command writes.
"""

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import requests

TOKEN = "token-of-the-benchmark"  # noqa: S105 -- of servers that live for seconds
LONGEST_HANG_SECONDS = 5.0
# Two peers both notify, unless the one has heard of the other's success in time.
PEERS = (1, 2, 2)
LATEST_PEER_SECONDS = 0.5
# As Alertmanager: again after half a second, then later and later, until it is a 2xx or a 4xx.
FIRST_RETRY_SECONDS = 0.5
RETRY_FACTOR = 1.5
LONGEST_RETRY_SECONDS = 2.0
POST_SECONDS = 5.0
ACKNOWLEDGED, REFUSED = range(200, 300), range(400, 500)
PAGE = """\
process_start_time_seconds {start}
vllm:num_requests_running{{engine="0"}} {running}
vllm:num_requests_waiting{{engine="0"}} 0
vllm:kv_cache_usage_perc{{engine="0"}} {kv}
vllm:generation_tokens_total{{engine="0"}} {tokens}
vllm:engine_sleep_state{{engine="0",sleep_state="awake"}} 1
"""
# A line for each restart, with its time and whose it was; the server is a new one from then on.
RESTART = """\
sleep 0.1
exec 9>>"$1"
flock 9
echo "$(date +%s.%N) $LIFEGUARD_BACKEND" >&9
flock -u 9
sleep 0.1
"""


class World:
    """One incident's server, alert and Alertmanager peers, in a context manager.

    ``restarts`` and ``answered`` are what happened to the server, ``acknowledged`` how often a
    notification was answered with 2xx, ``refused`` the statuses that Alertmanager takes for final.
    """

    def __init__(self, name: str, folder: Path, webhooks: list[str], random: Random) -> None:
        self.name = name
        self.record = folder / "restarts"
        self.command = ["/bin/sh", str(folder / "restart.sh"), str(self.record)]
        (folder / "restart.sh").write_text(RESTART)
        self.answered = 0
        self.acknowledged = 0
        self.refused: list[int] = []
        self._webhooks = webhooks
        self._random = random
        self._born = time.time() - 86400
        self._starts_at = datetime.now(UTC).isoformat()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,)),
            *(threading.Thread(target=self._tell) for _ in range(random.choice(PEERS))),
        ]

    @property
    def url(self) -> str:
        """Where the server, and Alertmanager's API, are."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def restarts(self) -> list[float]:
        """When the server was restarted, in Unix seconds."""
        if not self.record.exists():
            return []
        return [float(line.split()[0]) for line in self.record.read_text().splitlines()]

    def __enter__(self) -> Self:
        """The alert fires."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nobody asks any more."""
        self._over.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()

    def notify(self) -> None:
        """Notify that the alert fires, until it is a 2xx, or a 4xx, or we are over."""
        body: dict[str, object] = {"version": "4", "status": "firing", "truncatedAlerts": 0}
        body["alerts"] = [{**self._alert(), "status": "firing"}]
        pause = FIRST_RETRY_SECONDS
        while True:
            status = self._post(body)
            with self._lock:
                self.acknowledged += status in ACKNOWLEDGED
                self.refused += [status] if status in REFUSED else []
            if status in ACKNOWLEDGED or status in REFUSED or self._over.wait(pause):
                return
            pause = min(pause * RETRY_FACTOR, LONGEST_RETRY_SECONDS)

    def get(self, path: str) -> str | None:
        """The page at a path, or None."""
        match path:
            case "/metrics":
                return self._page()
            case "/health":
                return ""
            case "/v1/models":
                return json.dumps({"data": [{"id": "tiny"}]})
            case "/api/v2/alerts":
                return json.dumps(self._alerts())
        return None

    def _page(self) -> str:
        """The server's metrics: it stands still with a request in work until it is new."""
        restarts = self.restarts
        if restarts:
            return PAGE.format(start=restarts[-1], running=0, kv=0, tokens=0)
        return PAGE.format(start=self._born, running=1, kv=0.25, tokens=100)

    def complete(self) -> bool:
        """Answer a short request, or hang; tells whether it was answered."""
        deadline = time.monotonic() + LONGEST_HANG_SECONDS
        while not self.restarts:
            if time.monotonic() > deadline or self._over.wait(0.1):
                return False
        with self._lock:
            self.answered += 1
        return True

    def _alerts(self) -> list[dict[str, object]]:
        """What Alertmanager's API says: the alert fires for as long as we look."""
        status = {"state": "active", "silencedBy": [], "inhibitedBy": []}
        return [{**self._alert(), "status": status}]

    def _alert(self) -> dict[str, object]:
        labels = {"alertname": "VLLMEngineStuck", "backend": self.name, "engine": "0"}
        return {
            "fingerprint": "7bdcfff547bc4d61",
            "startsAt": self._starts_at,
            "endsAt": "0001-01-01T00:00:00Z",
            "labels": {**labels, "remediate": "restart", "symptom": "stuck"},
            "annotations": {},
        }

    def _tell(self) -> None:
        """Be one of Alertmanager's peers: notify until that is acknowledged, and no more."""
        if not self._over.wait(self._random.uniform(0.0, LATEST_PEER_SECONDS)):
            self.notify()

    def _post(self, body: dict[str, object]) -> int:
        """The status, 0 where there was no answer."""
        url = self._random.choice(self._webhooks)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        try:
            answer = requests.post(url, json=body, headers=headers, timeout=POST_SECONDS)
        except requests.RequestException:
            return 0
        return answer.status_code


def _handler(world: World) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Serve a page."""
            text = world.get(self.path.split("?")[0].rstrip("/"))
            self._send(404 if text is None else 200, text or "")

        def do_POST(self) -> None:
            """Answer the short request."""
            self.rfile.read(int(self.headers["Content-Length"]))
            if world.complete():
                self._send(200, json.dumps({"choices": [{}]}))
            else:
                self.close_connection = True

        def _send(self, status: int, text: str) -> None:
            body = text.encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # whoever asked was killed
                self.close_connection = True

    return Handler
