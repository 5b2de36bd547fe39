"""A server that says it is a container engine and then does what no good one does."""

import json
import threading
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

CONTAINER = {
    "Id": "c0ffee" * 10,
    "State": {"Status": "running", "Running": True, "Pid": 7, "StartedAt": "", "ExitCode": 0},
}


class Bad(Enum):
    MUTE = "takes requests and never answers"
    REFUSES = "answers a restart with an error"
    HANGS_UP = "ends the connection in the middle of a restart"
    TRICKLES = "sends a byte of its answer now and then"
    NO_ENGINE = "answers all requests with a page"


class FakeEngine:
    """Listens on a free port; ``asked`` are the paths of POST requests so far."""

    def __init__(self, bad: Bad) -> None:
        self.asked: list[str] = []
        self._ended = threading.Event()
        handler = type(
            "Handler", (_Handler,), {"bad": bad, "asked": self.asked, "ended": self._ended}
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.host = f"tcp://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    bad: ClassVar[Bad]
    asked: ClassVar[list[str]]
    ended: ClassVar[threading.Event]

    def do_GET(self) -> None:
        if self.bad is Bad.MUTE:
            self.ended.wait()
        elif self.bad is Bad.NO_ENGINE:
            self._send(200, b"<html>hello</html>")
        elif self.path == "/version":
            self._send(200, json.dumps({"ApiVersion": "1.41"}).encode())
        else:
            self._send(200, json.dumps(CONTAINER).encode())

    def do_POST(self) -> None:
        self.asked.append(self.path)
        if self.bad is Bad.REFUSES:
            self._send(500, b'{"message": "cannot kill container:\\n  it is in the kernel"}')
        elif self.bad is Bad.TRICKLES:
            self.send_response(500)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            while not self.ended.wait(0.2):
                self.wfile.write(b" ")
        else:
            self.close_connection = True

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
