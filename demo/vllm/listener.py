"""I/O: the port. Takes connections, notices clients that hang up, cuts everything at the end."""

import selectors
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

CLOSE_SECONDS = 2.0


class Listener(ThreadingHTTPServer):
    """A thread per connection, and one that sleeps until a connection comes or goes.

    That one watches the listening socket and those of clients that wait for an answer: such a
    client has nothing to say, so a socket that turns readable was closed by it.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handler: Callable[..., BaseHTTPRequestHandler]
    ) -> None:
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(address, handler)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.socket, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to take connections."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more, cut those that are open, and wait for their threads a moment."""
        self._wake.send(b"x")
        self._thread.join()
        self.server_close()
        with self._changed:
            for connection in self._connections:
                _cut(connection)
            self._changed.wait_for(lambda: not self._connections, CLOSE_SECONDS)
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def watch(self, connection: socket.socket, gone: Callable[[], None]) -> None:
        """Call ``gone`` once when the client at the other end hangs up."""
        self._selector.register(connection, selectors.EVENT_READ, gone)

    def unwatch(self, connection: socket.socket) -> None:
        """The client has its answer."""
        try:
            self._selector.unregister(connection)
        except (KeyError, ValueError):
            return

    def server_bind(self) -> None:
        """Bind without asking a name server what this machine is called."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Serve one connection in a thread of its own."""
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """Close one connection, at the end of its thread."""
        super().shutdown_request(request)
        with self._changed:
            self._connections.discard(request)
            self._changed.notify()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A client that went away in mid-sentence is no error of the server."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _listen(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self.socket:
                    self._take()
                elif isinstance(key.fileobj, socket.socket):
                    self.unwatch(key.fileobj)
                    if _closed(key.fileobj):
                        key.data()

    def _take(self) -> None:
        try:
            connection, address = self.get_request()
        except OSError:
            return
        self.process_request(connection, address)


def _closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
