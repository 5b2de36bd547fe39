"""The web server: requests come in beside each other, and one that has come whole gets a thread.

So a client that connects and says nothing, or says it slowly, costs a file descriptor and holds up
nobody; a TLS handshake neither.
"""

import asyncio
import contextlib
import logging
import resource
import ssl
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from socket import socket
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

from remediator.tls import Renewed

MOST_HEAD_BYTES = 64 * 1024
# So much of a body that is too large is read and thrown away, for a client that only then listens.
MOST_UNWANTED_BYTES = 8 * 1024 * 1024
THREADS = 4
BACKLOG = 1024
STOP_SECONDS = 2.0

log = logging.getLogger("remediator")

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Patience:
    """How long a client may take, in seconds: for the handshake, a request's head, and its body.

    ``idle`` is also how long a connection is kept between two requests: longer than Alertmanager's
    shortest pause between two notifications.
    """

    handshake: float = 10.0
    idle: float = 60.0
    body: float = 30.0


PATIENCE = Patience()


@dataclass(frozen=True)
class Answer:
    """A whole response."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Server:
    """Serves a WSGI application on one listening socket, in a thread of its own."""

    def __init__(
        self,
        app: App,
        sock: socket,
        tls: Renewed | None,
        *,
        most_bytes: int,
        patience: Patience = PATIENCE,
    ) -> None:
        """Of a body no more than ``most_bytes`` and one are kept; the application refuses those."""
        _allow_files()
        self._asgi = _Wsgi(app, most_bytes, patience.body)
        self._config = _Settings(tls, patience)
        # The event loop takes the socket over and closes it.
        self._config.bind = [f"fd://{sock.detach()}"]
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    def start(self) -> None:
        """Accept connections from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more; give what is under way a moment to end."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        self._loop.set_exception_handler(_unexpected)
        try:
            serving = serve(self._asgi, self._config, shutdown_trigger=self._stop.wait, mode="asgi")
            self._loop.run_until_complete(serving)
        except Exception:
            if not self._stop.is_set():
                log.exception("event=web_failed")
        finally:
            self._asgi.close()
            self._loop.close()


class _Settings(Config):
    """Hypercorn's, with a context of our own."""

    accesslog = None
    errorlog = None
    include_server_header = False
    backlog = BACKLOG
    graceful_timeout = STOP_SECONDS / 2
    h11_max_incomplete_size = MOST_HEAD_BYTES

    def __init__(self, tls: Renewed | None, patience: Patience) -> None:
        super().__init__()
        self._tls = tls
        self.keep_alive_timeout = patience.idle
        self.ssl_handshake_timeout = patience.handshake

    @property
    def ssl_enabled(self) -> bool:
        return self._tls is not None

    def create_ssl_context(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls.context


class _Wsgi:
    """A WSGI application as an ASGI one that reads the whole request first."""

    def __init__(self, app: App, most_bytes: int, body_seconds: float) -> None:
        self._app = app
        self._most = most_bytes
        self._body_seconds = body_seconds
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")

    def close(self) -> None:
        """Begin no further request."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        if scope["type"] == "http":
            answer = await self._answer(scope, receive)
            await send(
                {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
            )
            await send({"type": "http.response.body", "body": answer.body, "more_body": False})
        elif scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await send({"type": "websocket.close", "code": 1000, "reason": None})

    async def _answer(self, scope: HTTPScope, receive: ASGIReceiveCallable) -> Answer:
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await self._body(receive)
        except TimeoutError:
            return Answer(408, ((b"connection", b"close"),), b"")
        loop = asyncio.get_running_loop()
        environ = _environ(scope, body)
        try:
            return await loop.run_in_executor(self._threads, _answered, self._app, environ)
        except Exception:
            log.exception("event=request_failed")
            return Answer(500, (), b"")

    async def _body(self, receive: ASGIReceiveCallable) -> bytes:
        """The body; of one that is too large just more than is allowed."""
        body, came, more = bytearray(), 0, True
        while more and came <= MOST_UNWANTED_BYTES:
            message = await receive()
            if message["type"] != "http.request":
                raise ConnectionAbortedError
            came += len(message["body"])
            body += message["body"][: self._most + 1 - len(body)]
            more = message["more_body"]
        return bytes(body)


def _allow_files() -> None:
    """Raise the soft limit of open files to the hard one: a connection takes one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _answered(app: App, environ: Environ) -> Answer:
    """What the application says to one request; runs in a thread."""
    said: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _error: object = None
    ) -> Callable[[bytes], object]:
        said.append((status, headers))
        return written.append

    written: list[bytes] = []
    chunks = app(environ, start_response)
    try:
        written.extend(chunks)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()
    status, headers = said[-1]
    encoded = ((n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in headers)
    return Answer(int(status.split(" ", 1)[0]), tuple(encoded), b"".join(written))


def _environ(scope: HTTPScope, body: bytes) -> Environ:
    """The request as PEP 3333 wants it. The body is whole, so its length is known."""
    host, port = scope["server"] or ("", None)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode("utf-8", errors="replace").decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or ""),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0] if scope["client"] else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw, value in scope["headers"]:
        # A name with an underscore would pass for the one with a hyphen.
        if b"_" not in raw:
            name = f"HTTP_{raw.decode('latin-1').upper().replace('-', '_')}"
            text = value.decode("latin-1")
            environ[name] = f"{environ[name]},{text}" if name in environ else text
    environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE", "")
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_CONTENT_LENGTH", None)
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return environ


def _unexpected(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A handshake that fails is the client's matter."""
    if not isinstance(context.get("exception"), ssl.SSLError | ConnectionError | TimeoutError):
        loop.default_exception_handler(context)
