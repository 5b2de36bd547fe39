"""The on-call person of the demo: a webhook that keeps what it is told."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class OnCall:
    """Receives Alertmanager's notifications on a free loopback port, as a context manager."""

    def __init__(self) -> None:
        self._pages: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer._pages.append(json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing: the demo shows what was received."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/page"

    def pages(self) -> list[str]:
        """The alert and backend of every firing alert a person was told of, as ``name backend``."""
        return [alert for message in self.messages() for alert in message]

    def messages(self) -> list[tuple[str, ...]]:
        """The same, message by message, without those that only said that something is over."""
        told = (
            tuple(
                f"{alert['labels']['alertname']} {alert['labels'].get('backend', '')}".strip()
                for alert in page["alerts"]
                if alert["status"] == "firing"
            )
            for page in list(self._pages)
        )
        return [message for message in told if message]

    def __enter__(self) -> Self:
        """Start listening."""
        threading.Thread(target=self._server.serve_forever, name="on-call", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
