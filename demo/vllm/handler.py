"""I/O: HTTP, one connection per thread."""

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from demo.vllm.api import VERSION, Api
from demo.vllm.ask import Kind
from demo.vllm.listener import Listener
from demo.vllm.loop import End, Stream
from demo.vllm.refusal import Refusal, bad_request, engine_dead
from demo.vllm.reply import DONE, Reply, compact, frame
from demo.vllm.request import Output
from demo.vllm.traffic import Exchange

JSON = "application/json"
SIM = "/sim/"


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other on its connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def __init__(self, api: Api, *args: Any) -> None:  # noqa: ANN401 - what socketserver passes on
        self._api = api
        self._status = 0
        self._sent = 0
        self._body = b""
        self._query = ""
        super().__init__(*args)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep stderr for events."""

    def version_string(self) -> str:
        """What vLLM's HTTP server calls itself."""
        return "uvicorn"

    def serve(self) -> None:
        """Count, read, answer one request."""
        began = time.monotonic()
        url = urlsplit(self.path)
        self._query = url.query
        self._status = self._sent = 0
        self._api.visits.add(url.path, self.headers.get("User-Agent", ""))
        try:
            self._body = self._read()
            if not url.path.startswith(SIM):
                self._api.mute.wait()
            self._answer(url.path)
        except Refusal as refusal:
            self._reply(refusal.status, compact(refusal.body))
        finally:
            if self._status:
                self._count(url.path, time.monotonic() - began)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve  # noqa: N815

    def _answer(self, path: str) -> None:
        if path.startswith(SIM) and self.command == "POST":
            self._fault(path.removeprefix(SIM))
            return
        routes = self._routes().get(path)
        if routes is None:
            raise Refusal(HTTPStatus.NOT_FOUND, HTTPStatus.NOT_FOUND.phrase)
        if self.command not in routes:
            status = HTTPStatus.METHOD_NOT_ALLOWED
            raise Refusal(status, status.phrase)
        routes[self.command]()

    def _routes(self) -> dict[str, dict[str, Callable[[], None]]]:
        return {
            "/metrics": {"GET": lambda: self._metrics(mounted=False)},
            "/metrics/": {"GET": lambda: self._metrics(mounted=True)},
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/version": {"GET": lambda: self._json({"version": VERSION})},
            "/load": {"GET": lambda: self._json({"server_load": 0})},
            "/v1/models": {"GET": lambda: self._json(self._api.models())},
            f"{SIM}state": {"GET": lambda: self._json(self._api.state())},
            **{kind.value: {"POST": partial(self._generate, kind)} for kind in Kind},
        }

    def _metrics(self, *, mounted: bool) -> None:
        text = self._api.metrics(self._query, mounted=mounted)
        self._reply(HTTPStatus.OK, text.encode(), CONTENT_TYPE_LATEST)

    def _health(self) -> None:
        dead = self._api.loop.dead
        self._reply(HTTPStatus.SERVICE_UNAVAILABLE if dead else HTTPStatus.OK, b"")

    def _fault(self, name: str) -> None:
        try:
            self._json(self._api.act(name, self._body))
        except LookupError as error:
            self._reply(HTTPStatus.NOT_FOUND, compact({"error": error.args[0]}))
        except ValueError as error:
            self._reply(HTTPStatus.BAD_REQUEST, compact({"error": str(error)}))

    def _generate(self, kind: Kind) -> None:
        wanted = self._api.ask(kind, self._body)
        reply = Reply(wanted, self._id(kind), int(time.time()))
        streams = self._api.submit(wanted, self.headers.get("X-data-parallel-rank"))

        def gone() -> None:
            for stream in streams:
                stream.put(End.CLIENT_GONE)

        self.server.watch(self.connection, gone)
        try:
            if kind is Kind.EMBEDDING:
                for stream in streams:
                    self._collect(stream)
                self._json(reply.embeddings())
            elif wanted.stream:
                self._stream(reply, streams[0])
            else:
                self._json(reply.whole(self._collect(streams[0])))
        finally:
            self.server.unwatch(self.connection)
            for stream in streams:
                self._api.loop.abort(stream)

    def _collect(self, stream: Stream) -> list[Output]:
        outputs: list[Output] = []
        while not outputs or not outputs[-1].finish:
            item = self._take(stream)
            if item is End.ENGINE_DEAD:
                raise engine_dead()
            if isinstance(item, End):
                raise ConnectionAbortedError(item.name)
            outputs.append(item)
        return outputs

    def _stream(self, reply: Reply, stream: Stream) -> None:
        self._open_stream()
        tokens = 0
        while True:
            item = self._take(stream)
            if item is End.ENGINE_DEAD:
                self._chunk(frame(engine_dead().body) + DONE)
                break
            if isinstance(item, End):
                self.close_connection = True
                return
            tokens += 1
            last = tuple(reply.closing(tokens)) if item.finish else ()
            self._chunk(b"".join((*reply.frames(item, tokens), *last)))
            if item.finish:
                break
        self._end_stream()

    def _take(self, stream: Stream) -> Output | End:
        item = stream.take()
        self._api.mute.wait()
        return item

    def _id(self, kind: Kind) -> str:
        prefix = {Kind.COMPLETION: "cmpl", Kind.CHAT: "chatcmpl", Kind.EMBEDDING: "embd"}[kind]
        return f"{prefix}-{self.headers.get('X-Request-Id') or uuid4().hex}"

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise bad_request("a body must come with Content-Length; chunks are not read here")
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal():
            self.close_connection = True
            raise bad_request(f"Content-Length must be a number of bytes, got {length!r}")
        return self.rfile.read(int(length))

    def _json(self, value: object) -> None:
        self._reply(HTTPStatus.OK, compact(value))

    def _reply(self, status: HTTPStatus, body: bytes, content_type: str = JSON) -> None:
        self._status, self._sent = status, len(body)
        self.send_response(status)
        if body:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _open_stream(self) -> None:
        self._status = HTTPStatus.OK
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        if self._chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.close_connection = True
        self.end_headers()

    @property
    def _chunked(self) -> bool:
        return self.request_version == "HTTP/1.1"

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def _end_stream(self) -> None:
        if self._chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _count(self, path: str, seconds: float) -> None:
        known = path in self._routes() or path.startswith(SIM)
        self._api.answered(
            Exchange(
                handler=path if known else "none",
                method=self.command,
                status=self._status,
                request_bytes=len(self._body),
                response_bytes=self._sent,
                seconds=seconds,
            )
        )
