"""Where a program listens: HOST:PORT, as --web.listen-address takes it."""

import socket
from argparse import ArgumentTypeError
from dataclasses import dataclass

HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Listen:
    """A host and a port; an empty host in the text means all addresses."""

    host: str
    port: int

    def __str__(self) -> str:
        """HOST:PORT, with brackets around an IPv6 host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def bound(self) -> socket.socket:
        """A socket that listens there. Raises OSError, also for a host that does not resolve."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        sock = socket.socket(family)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self.host, self.port))
            sock.listen(1024)
        except OSError:
            sock.close()
            raise
        return sock


def listen_address(text: str) -> Listen:
    """Read HOST:PORT, :PORT or [IPV6]:PORT. Raises ArgumentTypeError with one sentence."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if (
        not colon
        or not port.isdecimal()
        or int(port) > HIGHEST_PORT
        or (":" in bare and bare == host)
    ):
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return Listen(bare or "0.0.0.0", int(port))  # noqa: S104 -- as exporters listen
