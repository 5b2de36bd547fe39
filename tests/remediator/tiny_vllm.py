"""A very small vLLM: real HTTP on a real socket, and it can freeze, move, sleep, pause and hang."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

PAGE = """\
# TYPE process_start_time_seconds gauge
process_start_time_seconds {start}
process_cpu_seconds_total {cpu}
"""
ENGINE = """\
vllm:num_requests_running{{engine="{e}",model_name="tiny"}} {running}
vllm:num_requests_waiting{{engine="{e}",model_name="tiny"}} 0.0
vllm:kv_cache_usage_perc{{engine="{e}",model_name="tiny"}} {kv}
vllm:generation_tokens_total{{engine="{e}",model_name="tiny"}} {tokens}
vllm:engine_sleep_state{{engine="{e}",sleep_state="awake",model_name="tiny"}} {awake}
"""


QUEUE = """
vllm:num_requests_waiting{{engine="{e}"}} {waiting}
vllm:num_requests_waiting_by_reason{{engine="{e}",reason="capacity"}} {waiting}
"""


@dataclass
class Engine:
    """What one engine writes; with ``speed`` its tokens rise by so many a second."""

    tokens: float = 100.0
    running: int = 1
    speed: float = 0.0
    awake: int = 1
    kv: float = 0.25


@dataclass
class Behaviour:
    """How the server answers. ``answers``: an HTTP status for the short request, 0 for never.

    ``queued``: how many are shown to wait, beside the requests that have come; None shows none.
    """

    start: float = 1_700_000_000.0
    engines: dict[str, Engine] = field(default_factory=lambda: {"0": Engine()})
    health: int = 200
    metrics: int = 200
    paused: bool | None = None
    answers: int = 0
    malformed: bool = False
    queued: int | None = None
    updates_weights: bool = False


class TinyVLLM:
    """The server, in a context manager. ``requests`` holds every path asked, in order."""

    def __init__(self, **behaviour: Any) -> None:  # noqa: ANN401 -- fields of Behaviour
        self.behaves = Behaviour(**behaviour)
        self.requests: list[str] = []
        self.ranks: list[str | None] = []
        self.thawed = threading.Event()
        self._began = time.monotonic()
        tiny = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                tiny.requests.append(self.path)
                tiny.get(self)

            def do_POST(self) -> None:
                tiny.requests.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                tiny.ranks.append(self.headers.get("X-data-parallel-rank"))
                tiny.post(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.thawed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def asked(self, path: str) -> int:
        """How often a path was asked."""
        return self.requests.count(path)

    def page(self) -> str:
        """The metrics page as it is now; the API server's own series always move."""
        seconds = time.monotonic() - self._began
        page = PAGE.format(start=self.behaves.start, cpu=seconds)
        if self.behaves.malformed:
            return page + 'vllm:num_requests_running{engine="0"} NaN\n'
        if self.behaves.updates_weights:
            page += 'vllm:rl_weight_update_operations_in_flight{operation="update"} 0\n'
        for name, engine in self.behaves.engines.items():
            page += ENGINE.format(
                e=name,
                running=engine.running,
                kv=engine.kv,
                tokens=engine.tokens + int(engine.speed * seconds),
                awake=engine.awake,
            )
            if self.behaves.queued is not None:
                page += QUEUE.format(e=name, waiting=self.behaves.queued + len(self.ranks))
        return page

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        match handler.path:
            case "/metrics":
                self._send(handler, self.behaves.metrics, self.page())
            case "/health":
                self._send(handler, self.behaves.health, "")
            case "/is_paused" if self.behaves.paused is not None:
                self._send(handler, 200, json.dumps({"is_paused": self.behaves.paused}))
            case "/v1/models":
                self._send(handler, 200, json.dumps({"data": [{"id": "tiny"}]}))
            case _:
                self._send(handler, 404, "")

    def post(self, handler: BaseHTTPRequestHandler) -> None:
        if self.behaves.answers == 0:
            self.thawed.wait(60.0)
        self._send(handler, self.behaves.answers or 200, json.dumps({"choices": [{}]}))

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, text: str) -> None:
        body = text.encode()
        try:
            handler.send_response(status)
            handler.send_header("Content-Length", str(len(body)))
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:
            handler.close_connection = True
