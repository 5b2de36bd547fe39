"""What one writes first: a relay on aiohttp, server and client, that passes chunks on.

python -m benchmarks.gateway.plain PORT UPSTREAM_PORT
"""

import asyncio
import sys
from collections.abc import Sequence

import aiohttp
import uvloop
from aiohttp import web

UPSTREAM = web.AppKey("upstream", str)
SESSION = web.AppKey("session", aiohttp.ClientSession)


async def relay(request: web.Request) -> web.StreamResponse:
    """Pass a request on, and its answer back."""
    url = request.app[UPSTREAM] + request.path
    body = await request.read()
    headers = {"content-type": "application/json"}
    async with request.app[SESSION].request(
        request.method, url, data=body, headers=headers
    ) as answer:
        response = web.StreamResponse(status=answer.status)
        response.content_type = answer.content_type
        await response.prepare(request)
        async for data in answer.content.iter_any():
            await response.write(data)
        await response.write_eof()
        return response


async def serve(port: int, upstream: int) -> None:
    """Serve until the process ends."""
    app = web.Application()
    app[UPSTREAM] = f"http://127.0.0.1:{upstream}"
    app[SESSION] = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    )
    app.router.add_route("*", "/{path:.*}", relay)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    await asyncio.Event().wait()


def main(arguments: Sequence[str]) -> int:
    """Serve; returns only when the process is told to end."""
    port, upstream = map(int, arguments)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(port, upstream))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
