"""The floor: a relay on uvloop's Protocols that passes bytes on and counts frames, no more.

python -m benchmarks.gateway.bare PORT UPSTREAM_PORT
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import cast

import uvloop


class Inward(asyncio.Protocol):
    """The connection to the server."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client
        self.frames = 0

    def data_received(self, data: bytes) -> None:
        """Count, and pass on."""
        self.frames += data.count(b"\n\n")
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Hang up on the client."""
        del exc
        self._client.close()


class Outward(asyncio.Protocol):
    """The connection of a client."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._server: asyncio.Transport | None = None
        self._read = b""
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the other side."""
        self._opening = asyncio.create_task(self._open(cast(asyncio.Transport, transport)))

    async def _open(self, client: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_connection(
            lambda: Inward(client), "127.0.0.1", self._upstream
        )
        self._server = server
        if self._read:
            server.write(self._read)

    def data_received(self, data: bytes) -> None:
        """Pass a request on."""
        if self._server is None:
            self._read += data
        else:
            self._server.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Hang up on the server."""
        del exc
        if self._server is not None:
            self._server.close()


async def serve(port: int, upstream: int) -> None:
    """Serve until the process ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Outward(upstream), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main(arguments: Sequence[str]) -> int:
    """Serve; returns only when the process is told to end."""
    port, upstream = map(int, arguments)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(port, upstream))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
