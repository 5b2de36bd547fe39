"""HTTP connections for ``requests`` on which no exchange outlasts its deadline.

A socket's own timeout bounds one read, not their sum: a server that sends a byte every few seconds
would hold the caller for ever. Here each read waits only for what is left of one deadline.
"""

import io
import socket
import threading
import time
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class _Deadline(threading.local):
    """When the exchange under way in this thread must be over, by the monotonic clock."""

    at: float = 0.0


deadline = _Deadline()


class _BoundedReader(io.RawIOBase):
    """A socket's bytes, until the deadline of this thread's exchange."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 -- as io.RawIOBase has it
        left = deadline.at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _BoundedSocket:
    """A connected socket whose file is a _BoundedReader; all else is the socket's own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self._sock))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the socket has
        return getattr(self._sock, name)


class _BoundedHTTP(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock = _BoundedSocket(self.sock)


class _BoundedHTTPS(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock = _BoundedSocket(self.sock)


class _BoundedHTTPPool(HTTPConnectionPool):
    ConnectionCls = _BoundedHTTP


class _BoundedHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _BoundedHTTPS


class BoundedAdapter(HTTPAdapter):
    """Mounts the bounded connections on a ``requests`` session."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Make the pool manager hand out bounded connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _BoundedHTTPPool,
            "https": _BoundedHTTPSPool,
        }
