"""A server that lists its models as others do and answers everything else as a test wants it."""

import json
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.gateway.hearing import frames
from tests.gateway.playing import Got, read

MODELS = json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}).encode()
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"
Play = Callable[[socket.socket, Got], None]


class Hostile:
    """``play`` answers on a connection, which is closed after it; requests are kept in ``got``."""

    def __init__(self, play: Play) -> None:
        self.got: list[Got] = []
        self.play = play
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._main = threading.Thread(target=self._run, name="hostile server")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._main.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        with socket.create_connection(self._listener.getsockname()):
            pass
        self._main.join(60.0)
        self._listener.close()
        for thread in self._threads:
            thread.join(60.0)
            assert not thread.is_alive()

    def wait(self) -> None:
        """Wait for the end of the test; for plays that fall silent."""
        self._over.wait(60.0)

    def _run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._over.is_set():
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(30.0)
            try:
                got = read(connection)
                if got is None:
                    return
                if got.line.startswith("GET /v1/models "):
                    answer(connection, 200, MODELS)
                    return
                self.got.append(got)
                self.play(connection, got)
            except OSError:
                return  # the gateway has hung up


def answer(connection: socket.socket, status: int, body: bytes, *headers: str) -> None:
    """Send a whole answer, the last one on this connection."""
    lines = [f"HTTP/1.1 {status} Played", "content-type: application/json", *headers]
    lines += [f"content-length: {len(body)}", "connection: close", "", ""]
    connection.sendall("\r\n".join(lines).encode() + body)


def chunk(connection: socket.socket, data: bytes) -> None:
    """Send a piece of a stream."""
    connection.sendall(b"%x\r\n%b\r\n" % (len(data), data))


def reset(connection: socket.socket) -> None:
    """Break the connection off with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def said(got: Got) -> list[bytes]:
    """The frames that an honest server would answer a request with."""
    return frames(got.line.split(" ")[1], got.body)
