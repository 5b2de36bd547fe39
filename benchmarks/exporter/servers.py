"""Thousands of simulated backends: one nginx on many loopback addresses, serving a real page.

The page is a recorded one whose counters go up while the benchmark runs, as those of a busy server
do. nginx ignores the query of a URL; a look at ``/metrics/`` gets the page as vLLM filters it.
"""

import threading
from pathlib import Path

from demo.child import Child
from demo.parts import nginx
from fleet.reading import NAMES

PAGE = Path(__file__).resolve().parents[2] / "tests/fixtures/recordings/busy-decode/00.prom"
RISING = ("vllm:generation_tokens_total", "vllm:iteration_tokens_total_count")
REWRITE_SECONDS = 5.0
CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 16384; }}
http {{
  map $request_uri $form {{ ~^/metrics/ filtered; ~^/metrics full; default other; }}
  log_format look "$msec $server_addr $form";
  access_log {folder}/looks.log look;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_timeout 600;
  keepalive_requests 1000000;
  default_type "text/plain; version=0.0.4";
  server {{
    listen 0.0.0.0:{port} backlog=8192;
    root {folder}/pages;
    location = /metrics {{ rewrite ^ /full.prom break; }}
    location = /metrics/ {{ rewrite ^ /filtered.prom break; }}
    location = /health {{ return 200; }}
    location = /v1/models {{ return 200 '{{"data": [{{"id": "m"}}]}}'; }}
  }}
}}
"""


def address(number: int) -> str:
    """The loopback address of backend ``number``."""
    return f"127.0.{number // 250 + 1}.{number % 250 + 1}"


class Servers:
    """nginx, and the thread that lets the counters go up."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self.log = folder / "looks.log"
        self._lines = PAGE.read_text().splitlines()
        self._turn = 0
        (folder / "pages").mkdir()
        folder.chmod(0o755)
        self._write()
        (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=port))
        command = [nginx(), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
        self._nginx = Child("nginx", command, folder)
        self._nginx.wait_ready(f"http://127.0.0.1:{port}/metrics")
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._keep_rising, name="pages", daemon=True)
        self._writer.start()

    def stop(self) -> None:
        """End nginx and the thread."""
        self._over.set()
        self._writer.join()
        self._nginx.stop()

    def _keep_rising(self) -> None:
        while not self._over.wait(REWRITE_SECONDS):
            self._write()

    def _write(self) -> None:
        self._turn += 1
        full = [self._risen(line) for line in self._lines]
        filtered = [line for line in full if line.partition("{")[0].partition(" ")[0] in NAMES]
        for name, lines in (("full", full), ("filtered", filtered)):
            new = self._folder / "pages" / f"{name}.new"
            new.write_text("".join(f"{line}\n" for line in lines))
            new.chmod(0o644)
            new.replace(self._folder / "pages" / f"{name}.prom")

    def _risen(self, line: str) -> str:
        if not line.startswith(RISING):
            return line
        name, _, value = line.rpartition(" ")
        return f"{name} {float(value) + 100.0 * self._turn}"


def page_bytes() -> int:
    """How long the full page is."""
    return PAGE.stat().st_size
