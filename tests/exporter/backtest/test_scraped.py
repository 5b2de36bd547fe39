"""The backtest over what a real Prometheus has scraped from a server that froze and thawed."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import parts
from demo.child import Child, free_ports
from demo.servers import Server
from exporter.backtest.flags import options
from exporter.backtest.prometheus import CannotTellError, Prometheus
from exporter.backtest.replay import replay
from exporter.backtest.report import Report
from tests.fleet.listeners import eventually

ROOT = Path(__file__).parents[3]
CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs:
  - {{job_name: vllm, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}
"""


class Unwatched:
    """Progress that nobody looks at."""

    def at(self, done: float, what: str) -> None:
        assert 0 <= done <= 1, what


@dataclass(frozen=True)
class Scraped:
    """A server, and the Prometheus that scrapes it."""

    server: Server
    prometheus: str

    def report(self) -> Report:
        argv = ["--prometheus", self.prometheus, "--since", "10m", "--wait", "3s"]
        with closing(Prometheus(self.prometheus, None)) as prometheus:
            return replay(prometheus, options(argv), Unwatched())

    def comes_to(self, *ends: str) -> bool:
        """Whether the hangs in it come to have ended so."""
        return eventually(lambda: self._ends() == list(ends), 90.0, every=0.5)

    def _ends(self) -> list[str] | None:
        """How the hangs ended; None while there is no series yet."""
        try:
            return [str(episode.end) for _, episode in self.report().episodes]
        except CannotTellError:
            return None


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[Scraped]:
    port, own = free_ports(2)
    server = Server("gpu-a", port, tmp_path)
    server.start("--load-seconds", "1")
    prometheus = None
    try:
        server.wait_ready()
        (tmp_path / "prometheus.yml").write_text(CONFIG.format(port=port))
        prometheus = Child(
            "prometheus",
            [
                parts.find().prometheus,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{own}",
            ],
            tmp_path,
        )
        prometheus.wait_ready(f"http://127.0.0.1:{own}/-/ready")
        server.fault("batch", requests=3, max_tokens=30000)
        yield Scraped(server, f"http://127.0.0.1:{own}")
    finally:
        if prometheus is not None:
            prometheus.stop()
        server.stop()


def test_a_freeze_a_thaw_and_a_restart_are_found_as_they_were(scraped: Scraped) -> None:
    assert scraped.comes_to()
    scraped.server.fault("freeze")
    assert scraped.comes_to("still_hung")
    scraped.server.fault("thaw")
    assert scraped.comes_to("came_back")
    scraped.server.fault("batch", requests=3, max_tokens=30000)
    scraped.server.fault("freeze")
    assert scraped.comes_to("came_back", "still_hung")
    subprocess.run(scraped.server.restart_command, cwd=ROOT, check=True, capture_output=True)
    scraped.server.wait_ready()
    assert scraped.comes_to("came_back", "restarted")
    report = scraped.report()
    (target,) = report.targets
    assert target.interval == 0.5
    assert target.watched.history.restarts == 1
    assert target.watched.failed > 0
    assert target.watched.longest is not None
    assert target.watched.longest.seconds >= 6.0
    (_, last) = report.episodes[-1]
    assert last.how.startswith("start time changed from ")
