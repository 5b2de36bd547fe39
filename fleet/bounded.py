"""HTTP connections for urllib3 on which no exchange outlasts its deadline.

A socket's own timeout bounds one read, not their sum: a server that sends a byte every few seconds
would hold the caller for ever. Here each read waits only for what is left of one deadline.
"""

import io
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any

import certifi
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NewConnectionError
from urllib3.util import parse_url


class _Deadline(threading.local):
    """When the exchange under way in this thread must be over, by the monotonic clock."""

    at: float = 0.0

    def left(self) -> float:
        """Seconds that are left; raises TimeoutError where there are none."""
        seconds = self.at - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


deadline = _Deadline()


class _BoundedReader(io.RawIOBase):
    """A socket's bytes, until the deadline of this thread's exchange."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 -- as io.RawIOBase has it
        self._sock.settimeout(deadline.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _BoundedSocket:
    """A connected socket that reads and writes until the deadline; all else is the socket's own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self._sock))

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(deadline.left())
        self._sock.sendall(data)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the socket has
        return getattr(self._sock, name)


def _connected(host: str, port: int, options: Sequence[tuple[Any, ...]]) -> socket.socket:
    """A socket to the first of a host's addresses that accepts.

    Each has its share of the time left, so that one address that drops packets leaves some to the
    next. What is left then bounds the TLS handshake.
    """
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    refusal: OSError = TimeoutError()
    for i, (family, kind, protocol, _, address) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            for option in options:
                sock.setsockopt(*option)
            sock.settimeout(deadline.left() / (len(found) - i))
            sock.connect(address)
            sock.settimeout(deadline.left())
        except OSError as error:
            sock.close()
            refusal = error
        else:
            return sock
    raise refusal


class _BoundedHTTP(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        try:
            return _connected(self._dns_host, self.port, self.socket_options or ())
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error

    def connect(self) -> None:
        super().connect()
        self.sock = _BoundedSocket(self.sock)


class _BoundedHTTPS(_BoundedHTTP, HTTPSConnection):
    """The same on top of TLS, whose connect() this inherits."""


def connection(url: str, authorities: str = certifi.where()) -> HTTPConnection:
    """A connection to the server at ``url``, made when it is first used and again when it was lost.

    Its certificate is checked against the ``authorities`` of a file, those that certifi lists.
    """
    parts = parse_url(url)
    host = (parts.host or "").strip("[]")
    if parts.scheme == "https":
        return _BoundedHTTPS(host, parts.port, cert_reqs=ssl.CERT_REQUIRED, ca_certs=authorities)
    return _BoundedHTTP(host, parts.port)
