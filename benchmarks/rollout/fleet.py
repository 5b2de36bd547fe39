"""Two simulated servers with a load time, to be restarted one after the other."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from demo.child import free_ports
from demo.servers import ROOT, Server

NAMES = ("gpu-1", "gpu-2")
LOAD_SECONDS = 45.0
SLOTS = 256


@contextmanager
def servers(folder: Path, scale: float, steps_per_second: float) -> Iterator[Sequence[Server]]:
    """Two that serve; each has a load time of its own after each start."""
    ports = free_ports(len(NAMES))
    found = [Server(name, port, folder) for name, port in zip(NAMES, ports, strict=True)]
    try:
        for server in found:
            server.start(
                *("--load-seconds", str(LOAD_SECONDS * scale)),
                *("--max-num-seqs", str(SLOTS)),
                *("--steps-per-second", str(steps_per_second)),
                *("--prefill-tokens-per-second", "100000"),
            )
        for server in found:
            server.wait_ready()
        yield found
    finally:
        for server in found:
            server.stop()


def restart(server: Server) -> None:
    """SIGTERM, then a new one; returns when it serves again."""
    subprocess.run(server.restart_command, cwd=ROOT, check=True, capture_output=True)
    server.wait_ready()
