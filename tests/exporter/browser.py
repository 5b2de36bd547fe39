"""Headless Chromium on the exporter's real application, served by waitress on a free port."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from waitress import wasyncore
from waitress.server import TcpWSGIServer, create_server

from demo import parts
from exporter.collector import FleetCollector
from exporter.memory import Memory
from exporter.standing import Standing
from exporter.web import create_app
from fleet.family import registry
from tests.exporter.fleets import SETTINGS

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def served(memory: Memory, monotonic: Callable[[], float]) -> Iterator[str]:
    """The application over this memory; gives its URL."""
    standing = Standing(SETTINGS, tuple(s.backend.name for s in memory.snapshots()))
    own = registry(FleetCollector(memory, lambda: standing, monotonic=monotonic))
    app = create_app(memory, own, lambda: standing, lambda: (), monotonic=monotonic)
    sockets: dict[int, Any] = {}
    server = create_server(app, host="127.0.0.1", port=0, threads=4, map=sockets)
    assert isinstance(server, TcpWSGIServer)
    _, port = server.getsockname()
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            wasyncore.loop(timeout=0.1, map=sockets, count=1)
        server.task_dispatcher.shutdown()
        # A browser keeps its connections open; a server that is gone has none.
        wasyncore.close_all(sockets)

    thread = threading.Thread(target=run, name="web")
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        stop.set()
        thread.join(60.0)
        assert not thread.is_alive()


class Browser:
    """One Chromium; what it asked for and what it had to complain of is kept."""

    def __init__(self, folder: Path) -> None:
        found = parts.browser()
        options = ChromeOptions()
        options.binary_location = found.chromium
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=Service(found.chromedriver))
        self.driver.set_script_timeout(30)

    def close(self) -> None:
        """End it, and its driver."""
        self.driver.quit()

    def open(
        self, url: str, *, width: int = 1280, scheme: str = "light", scripts: bool = True
    ) -> None:
        """Load a page on a screen of so many CSS pixels across; a phone below 500."""
        self.complaints()
        self.asked_for()
        phone = width < 500
        self._do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            screenWidth=width,
            screenHeight=800,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme_is = {"name": "prefers-color-scheme", "value": scheme}
        self._do("Emulation.setEmulatedMedia", features=[scheme_is])
        self._do("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.driver.get(url)

    def run(self, script: str, *args: object) -> Any:  # noqa: ANN401 -- whatever it returns
        """What a script in the page returns."""
        return self.driver.execute_script(script, *args)

    def complaints(self) -> list[str]:
        """What the console said since the last call."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def asked_for(self) -> list[str]:
        """The URLs requested since the last call, also those that were blocked."""
        entries = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        return [
            str(entry["params"]["request"]["url"])
            for entry in entries
            if entry["method"] == "Network.requestWillBeSent"
        ]

    def comes_to(self, script: str, *, within: float = 30.0) -> bool:
        """Wait until a script in the page returns something true."""
        deadline = time.monotonic() + within
        while not (true := bool(self.run(script))) and time.monotonic() < deadline:
            time.sleep(0.1)
        return true

    def _do(self, command: str, **params: object) -> None:
        self.driver.execute_cdp_cmd(command, params)
