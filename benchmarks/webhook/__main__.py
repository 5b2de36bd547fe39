"""``make bench-webhook``: a thousand incidents wait, and each further notification is timed.

The remediator is the program as it is started, in shadow mode, on SQLite with a sync at every
commit. Its Alertmanager and its servers refuse connections, so that every incident goes on waiting
and is looked at again and again beside the notifications.
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import requests
import yaml
from rich.console import Console
from rich.table import Table

from demo.child import Child, NotReadyError, free_ports, sigterm_as_ctrl_c

QUEUED = 1000
TIMED = 1000
PEERS = 2
LIMIT_MS = 50.0
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure and print. Returns 0, 1 if the slowest hundredth takes longer than the limit."""
    with tempfile.TemporaryDirectory(prefix="bench-webhook-") as name:
        folder = Path(name)
        try:
            child, url = _started(folder)
        except NotReadyError as error:
            print(error, file=sys.stderr)
            return 2
        try:
            burst = _burst(url)
            alone = _one_by_one(url, 1)
            together = _one_by_one(url, PEERS)
            queued = _queued(url)
        finally:
            child.stop()
    table = Table(title=f"{queued} incidents wait; a notification is answered once it is stored")
    for column in ("", "notifications", "p50", "p99", "slowest"):
        table.add_column(column, justify="right" if column else "left")
    for who, took in (
        ("one Alertmanager", alone),
        (f"{PEERS} at once", together),
        (f"{QUEUED} connections at once", burst),
    ):
        shown = (f"{_share(took, share):.1f} ms" for share in (0.5, 0.99, 1.0))
        table.add_row(who, str(len(took)), *shown)
    Console(width=110).print(table)
    p50, p99 = _share(together, 0.5), _share(together, 0.99)
    print(f"RESULT p50_ms={p50:.1f} p99_ms={p99:.1f} queued={queued}")
    return 0 if p99 < LIMIT_MS else 1


def _started(folder: Path) -> tuple[Child, str]:
    ours, nobody = free_ports(2)
    (folder / "token").write_text("secret")
    server = f"http://127.0.0.1:{nobody}"
    fleet = {
        "backends": [{"name": f"gpu-{n}", "url": server} for n in range(QUEUED)],
        "remediator": {"mode": "shadow", "token_file": "token", "alertmanager": server},
    }
    (folder / "fleet.yml").write_text(yaml.safe_dump(fleet))
    child = Child(
        "remediator",
        [
            *(sys.executable, "-m", "remediator", f"--config.file={folder / 'fleet.yml'}"),
            f"--web.listen-address=127.0.0.1:{ours}",
        ],
        folder,
        env={"PYTHONPATH": str(ROOT)},
    )
    url = f"http://127.0.0.1:{ours}"
    child.wait_ready(f"{url}/-/ready")
    return child, url


STARTED = datetime.now(UTC).isoformat()


def _body(number: int) -> bytes:
    """What Alertmanager says, the first time or again, of one of the incidents."""
    number %= QUEUED
    alert = {
        "status": "firing",
        "labels": {
            "alertname": "VLLMEngineStuck",
            "backend": f"gpu-{number}",
            "engine": "0",
            "remediate": "restart",
        },
        "annotations": {},
        "startsAt": STARTED,
        "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": f"{number:016x}",
    }
    return json.dumps({"version": "4", "truncatedAlerts": 0, "alerts": [alert]}).encode()


def _post(session: requests.Session, url: str, number: int) -> float:
    """How long one notification took to be acknowledged, in milliseconds."""
    began = time.perf_counter()
    answer = session.post(
        f"{url}/api/alerts",
        data=_body(number),
        headers={"Authorization": "Bearer secret"},
        timeout=60,
    )
    answer.raise_for_status()
    return (time.perf_counter() - began) * 1000


def _burst(url: str) -> list[float]:
    """Every notification on a connection of its own, as many at once as threads can begin."""
    ready = threading.Barrier(QUEUED)

    def one(number: int) -> float:
        with requests.Session() as session:
            ready.wait(60)
            return _post(session, url, number)

    with ThreadPoolExecutor(QUEUED) as threads:
        return list(threads.map(one, range(QUEUED)))


def _one_by_one(url: str, peers: int) -> list[float]:
    """What so many Alertmanagers meet that wait for each answer."""

    def peer(first: int) -> list[float]:
        with requests.Session() as session:
            return [_post(session, url, first + n) for n in range(0, TIMED, peers)]

    with ThreadPoolExecutor(peers) as threads:
        return [took for some in threads.map(peer, range(peers)) for took in some]


def _queued(url: str) -> int:
    """Incidents that wait."""
    page = requests.get(f"{url}/metrics", timeout=60).text
    counts = (line for line in page.splitlines() if line.startswith("remediator_incidents_open{"))
    return round(sum(float(line.rsplit(" ", 1)[1]) for line in counts))


def _share(took: Sequence[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(len(took) * share))]


if __name__ == "__main__":
    sigterm_as_ctrl_c()
    sys.exit(main())
