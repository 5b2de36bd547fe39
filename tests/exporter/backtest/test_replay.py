"""The backtest over a real Prometheus that holds days of known hangs."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo import parts
from demo.child import Child, free_ports
from exporter.__main__ import main
from tests.exporter.backtest.kept import BORN, START, Server

DAY = 86_400
UNTIL = START + 3 * DAY


def healthy_for_days() -> Server:
    """Everything that has once been taken for a hang, and one hang that was ended by hand."""
    server = Server("10.0.0.1:8000", engines=("0",))
    server.busy(3600)
    server.hung(150)  # a long compilation: 165 s from move to move
    server.busy(3600)
    server.prefill(900)
    server.busy(600)
    server.deferred(900)
    server.busy(600)
    server.idle(7200)
    server.busy(START + DAY - 600 - server.at)
    server.hung(1800)  # over the end of a day, until somebody restarts it
    server.away(60)
    server.restarted(START + DAY + 1200.0)
    server.busy(START + 2 * DAY - server.at)
    server.hung(120)
    server.failing(60)
    server.hung(120)  # 240 s of silence were watched, so it is proven
    server.busy(UNTIL - server.at + 15)
    return server


def two_ranks() -> Server:
    """One rank hangs and comes back; later both hang and nobody does anything."""
    server = Server("10.0.0.2:8000", engines=("0", "1"), at=UNTIL - 4 * 3600)
    server.busy(3600)
    server.busy(240, hung=("1",))
    server.busy(3600)
    server.hung(UNTIL - server.at + 15)
    return server


def without_start_time() -> Server:
    server = Server("10.0.0.3:8000", at=UNTIL - 8 * 3600, born=None)
    server.busy(3600)
    server.hung(600)
    server.restarted(None)
    server.busy(3600)
    server.hung(120)
    server.failing(60)
    server.hung(120)  # who hung after the absence is not known: nothing is proven
    server.busy(UNTIL - server.at + 15)
    return server


def vanished() -> Server:
    server = Server("10.0.0.4:8000", at=START + 3600)
    server.busy(3600)
    server.hung(900)
    return server


def coarse() -> Server:
    server = Server("10.0.0.5:8000", interval=60)
    server.busy(3600)
    server.hung(120)
    server.busy(UNTIL - server.at + 60)
    return server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the blocks of all servers."""
    folder = tmp_path_factory.mktemp("kept")
    servers = (healthy_for_days(), two_ranks(), without_start_time(), vanished(), coarse())
    kept = folder / "kept.om"
    kept.write_text("".join(server.openmetrics for server in servers) + "# EOF\n")
    subprocess.run(
        [parts.find().promtool, "tsdb", "create-blocks-from", "openmetrics", kept, folder / "data"],
        check=True,
        capture_output=True,
    )
    return folder


def started(folder: Path, *flags: str) -> Iterator[str]:
    """A real Prometheus over the blocks; its URL."""
    (port,) = free_ports(1)
    (folder / "prometheus.yml").write_text("")
    url = f"http://127.0.0.1:{port}"
    child = Child(
        f"prometheus-{port}",
        [
            parts.find().prometheus,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=20y",
            f"--web.listen-address=127.0.0.1:{port}",
            *flags,
        ],
        folder,
    )
    try:
        child.wait_ready(f"{url}/-/ready")
        yield url
    finally:
        child.stop()


@pytest.fixture(scope="module")
def prometheus(folder: Path) -> Iterator[str]:
    yield from started(folder)


def backtest(url: str, *flags: str) -> int:
    return main(["backtest", "--prometheus", url, "--since", "3d", "--until", str(UNTIL), *flags])


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out))


def test_each_known_hang_is_a_row_and_nothing_else_is(
    prometheus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backtest(prometheus, "--json") == 1
    said = found(capsys)
    print(json.dumps(said, indent=1))
    assert 0
