"""Real servers on loopback that behave well or badly, one thread a connection."""

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

Handler = Callable[["Connection"], None]


@dataclass(frozen=True)
class Request:
    """What a client sent: names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Connection:
    """The server's end of one connection. Everything raises OSError once either end has closed."""

    def __init__(self, sock: socket.socket, closing: threading.Event) -> None:
        self._sock = sock
        self._closing = closing
        self._buffer = b""

    def request(self) -> Request | None:
        """The next request, or None where the client has closed."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._receive():
                return None
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        length = int(headers.get("content-length", "0"))
        self._buffer = rest
        while len(self._buffer) < length:
            if not self._receive():
                return None
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        method, path, _ = first.split(" ")
        return Request(method, path, headers, body)

    def _receive(self) -> bool:
        more = self._sock.recv(65536)
        self._buffer += more
        return bool(more)

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._sock.sendall(data)

    def drip(self, data: bytes, every: float = 0.05) -> None:
        """Send it byte by byte."""
        for i in range(len(data)):
            self._sock.sendall(data[i : i + 1])
            if self._closing.wait(every):
                return

    def wait(self, seconds: float) -> None:
        """Keep silent for a while, or until the listener closes."""
        self._closing.wait(seconds)

    def wait_until_closed(self) -> None:
        """Keep silent until the client has had enough."""
        while self._sock.recv(65536):
            pass

    def reset(self) -> None:
        """Close with a reset instead of an orderly end."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._sock.close()


class Listener:
    """Accepts on a free port and hands each connection to ``handler`` in a thread of its own."""

    def __init__(
        self, handler: Handler, *, host: str = "127.0.0.1", port: int = 0, scheme: str = "http"
    ) -> None:
        self._handler = handler
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, port), family=family, backlog=50)
        self.port: int = self._server.getsockname()[1]
        netloc = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.url = f"{scheme}://{netloc}"
        self.connections = 0
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name=f"listener-{self.port}")]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, close every connection and wait for the threads."""
        self._closing.set()
        self.stop_listening()
        self.close_connections()
        for thread in self._threads:
            thread.join(60.0)
            assert not thread.is_alive()

    def stop_listening(self) -> None:
        """Refuse new connections and keep the open ones."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def close_connections(self) -> None:
        """Close every open connection; a server does so when it was kept alive long enough."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,), name="connection")
            with self._lock:
                if self._closing.is_set():  # nobody would close it any more
                    sock.close()
                    return
                self.connections += 1
                self._open.append(sock)
                self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                self._handler(Connection(sock, self._closing))
        finally:
            with self._lock:
                self._open.remove(sock)
            sock.close()


def reply(body: str | bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A whole HTTP response; an underscore in a header's name stands for a dash."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def says(data: bytes) -> Handler:
    """Answer one request with these bytes and close."""

    def handler(connection: Connection) -> None:
        connection.request()
        connection.send(data)

    return handler


def serving(answer: Callable[[Request], bytes | None]) -> Handler:
    """Answer request after request of a connection; None closes it."""

    def handler(connection: Connection) -> None:
        while (request := connection.request()) is not None:
            answered = answer(request)
            if answered is None:
                return
            connection.send(answered)

    return handler


@contextlib.contextmanager
def full_backlog() -> Iterator[tuple[str, int]]:
    """The address of a listener that drops what asks to connect, as a firewall does."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address: tuple[str, int] = server.getsockname()
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)  # noqa: FBT003 -- the socket's own signature
            client.connect_ex(address)
        yield address


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, held so that nobody will."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@dataclass
class Vllm:
    """A server with vLLM's pages, whose answers can be changed while it runs."""

    page: str = ""
    health: str = "200 OK"
    metrics: str = "200 OK"
    # What it makes of a page that is asked for with a filter; None: it has no such page.
    filtered: Callable[[str], str] | None = None
    filtered_status: str = "200 OK"
    paused: str | None = None
    models: str = '{"data": [{"id": "m"}]}'
    completion: str = '{"choices": [{"text": "a"}]}'
    completions: str = "200 OK"
    pooling: bool = False
    requests: list[Request] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.hold.set()

    def paths(self) -> Counter[str]:
        """How often each path was asked for."""
        with self.lock:
            return Counter(request.path.partition("?")[0] for request in self.requests)

    def answer(self, request: Request) -> bytes:
        """What it answers; a completion only once ``hold`` is set."""
        with self.lock:
            self.requests.append(request)
        path = request.path.partition("?")[0]
        return self._page(path) if path.startswith("/metrics") else self._api(path)

    def _page(self, path: str) -> bytes:
        if path == "/metrics":
            return reply(self.page, self.metrics, Content_Type="text/plain; version=0.0.4")
        if self.filtered is not None:
            return reply(self.filtered(self.page), self.filtered_status)
        return reply("", "404 Not Found")

    def _api(self, path: str) -> bytes:
        match path:
            case "/is_paused" if self.paused is not None:
                return reply(self.paused)
            case "/health":
                return reply("", self.health)
            case "/v1/models":
                return reply(self.models)
            case "/v1/completions" if not self.pooling:
                return self._complete()
            case "/v1/embeddings" if self.pooling:
                return self._complete()
            case _:
                return reply("", "404 Not Found")

    def _complete(self) -> bytes:
        with self.lock:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.asked.set()
        self.hold.wait(30.0)
        with self.lock:
            self.in_flight -= 1
        return reply(self.completion, self.completions)


def eventually(holds: Callable[[], bool], within: float = 60.0, *, every: float = 0.005) -> bool:
    """Whether it comes true before the deadline; looked at ``every`` so many seconds."""
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
