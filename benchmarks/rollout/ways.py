"""The ways to roll out: behind nginx, behind vllm-router, behind our gateways."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.gateway.peers import nginx_command, router_command
from benchmarks.rollout.crowd import LONGEST, SHORTEST, STEPS_PER_SECOND, Crowd
from benchmarks.rollout.fleet import restart, servers
from benchmarks.rollout.gateways import gateways
from benchmarks.rollout.score import Score, by_usage, score
from benchmarks.rollout.stream import Seen
from demo.child import Child, free_ports
from demo.servers import Server
from gateway.client import AsyncResumingTransport

PATH = "/v1/chat/completions"
# Between two restarts, as any roll-out waits.
CALM_SECONDS = 10.0
# nginx's own: how long it does not ask a server that failed.
FAIL_SECONDS = 10.0


@dataclass(frozen=True)
class Size:
    """How many streams at once, and what all durations of the full size are multiplied by."""

    streams: int
    scale: float


Command = Callable[[Path, int, Sequence[int]], list[str]]


def nginx(folder: Path, size: Size) -> Score:
    """Without lifeguard: nginx over the servers, as it is set up at first.

    A server that failed is not asked for a while, then once: it counts as well again when that
    answer has ended, which a stream takes long to do.
    """
    return _nginx(folder, size, f"fail_timeout={max(1, round(FAIL_SECONDS * size.scale))}s")


def nginx_tuned(folder: Path, size: Size) -> Score:
    """The same, told to hold no failure against a server."""
    return _nginx(folder, size, "max_fails=0")


def _nginx(folder: Path, size: Size, server: str) -> Score:
    def command(folder: Path, port: int, upstreams: Sequence[int]) -> list[str]:
        return nginx_command(folder, port, upstreams, server=server)

    return _behind(folder, size, command)


def vllm_router(folder: Path, size: Size) -> Score:
    """With vllm-router over the servers, set up to notice at once what is down and what is up."""
    looks = ("--health-check-interval-secs", "1", "--health-check-timeout-secs", "1")
    after = ("--health-failure-threshold", "1", "--health-success-threshold", "1")

    def command(_: Path, port: int, upstreams: Sequence[int]) -> list[str]:
        return router_command(port, upstreams, *looks, *after, "--disable-circuit-breaker")

    return _behind(folder, size, command)


def ours(folder: Path, size: Size) -> Score:
    """With two gateways: the servers are restarted under any client, they under ours."""
    with (
        servers(folder, size.scale, STEPS_PER_SECOND) as backends,
        gateways(folder, backends, size.scale) as found,
    ):

        def backends_anew() -> None:
            for backend in backends:
                found.restart_backend(backend)
                time.sleep(CALM_SECONDS * size.scale)

        any_client = httpx.AsyncHTTPTransport(limits=_limits(size))
        first, took = _under_load(size, found.port, any_client, backends_anew)
        our_client = AsyncResumingTransport(httpx.AsyncHTTPTransport(limits=_limits(size)))
        second, took_too = _under_load(size, found.port, our_client, found.restart_themselves)
    return score([*first, *second], found.billed(), took + took_too)


WAYS: Mapping[str, Callable[[Path, Size], Score]] = {
    "nginx": nginx,
    "nginx_tuned": nginx_tuned,
    "vllm_router": vllm_router,
    "ours": ours,
}


def _behind(folder: Path, size: Size, command: Command) -> Score:
    with servers(folder, size.scale, STEPS_PER_SECOND) as backends:
        (port,) = free_ports(1)
        proxy = Child("proxy", command(folder, port, [one.port for one in backends]), folder)
        try:
            proxy.wait_ready(f"http://127.0.0.1:{port}/v1/models")
            transport = httpx.AsyncHTTPTransport(limits=_limits(size))
            seen, took = _under_load(size, port, transport, lambda: _anew(backends, size))
        finally:
            proxy.stop()
    return score(seen, by_usage(seen), took)


def _anew(backends: Sequence[Server], size: Size) -> None:
    for backend in backends:
        restart(backend)
        time.sleep(CALM_SECONDS * size.scale)


def _limits(size: Size) -> httpx.Limits:
    return httpx.Limits(max_connections=2 * size.streams, keepalive_expiry=1.0)


def _under_load(
    size: Size, port: int, transport: httpx.AsyncBaseTransport, act: Callable[[], None]
) -> tuple[list[Seen], float]:
    """What the clients see while something is done, and how many seconds that took."""

    async def both() -> tuple[list[Seen], float]:
        crowd = Crowd(f"http://127.0.0.1:{port}{PATH}", size.streams, size.scale, transport)
        clients = asyncio.create_task(crowd.run())
        await asyncio.sleep((SHORTEST + LONGEST) / 2 * size.scale)
        began = time.monotonic()
        try:
            await asyncio.to_thread(act)
        finally:
            took = time.monotonic() - began
            crowd.enough = True
            await clients
        return crowd.seen, took

    return asyncio.run(both())
