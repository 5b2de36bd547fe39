"""One run: a server at its pace, a relay alone on its core, the clients."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.gateway.cores import Cores, pinned
from benchmarks.gateway.load import Plan, Seen
from benchmarks.gateway.peers import Peer
from demo.child import Child, free_ports

READY_SECONDS = 90.0
SPARE_SECONDS = 60.0


def plan(streams: int, rate: float, window: float) -> Plan:
    """What the clients do; the parts around the window are in proportion to it."""
    return Plan(
        port=0,
        relay=0,
        streams=streams,
        rate=rate,
        ramp=window / 4,
        settle=window / 8,
        window=window,
        probing=window,
        probes=20.0,
        patience=window * 2,
    )


def seen(folder: Path, cores: Cores, wanted: Plan, peer: Peer | None) -> Seen:
    """What the clients see through a relay, or directly for None.

    Raises what the peer raises where it cannot be had, and NotReadyError.
    """
    server, port = free_ports(2)
    paced = [sys.executable, "-m", "benchmarks.gateway.paced", str(server), str(wanted.rate)]
    command = None if peer is None else peer(folder, port, server)
    children = [Child("paced", pinned(cores.load, paced), folder)]
    try:
        children[0].wait_ready(f"http://127.0.0.1:{server}/v1/models")
        if command is None:
            return _load(cores, replace(wanted, port=server))
        relay = Child("relay", pinned(cores.relay, command.argv), folder, env=command.env)
        children.append(relay)
        relay.wait_ready(f"http://127.0.0.1:{port}{command.ready}", timeout=READY_SECONDS)
        return _load(cores, replace(wanted, port=port, relay=relay.pid))
    finally:
        for child in reversed(children):
            child.stop()


def _load(cores: Cores, wanted: Plan) -> Seen:
    load = [sys.executable, "-m", "benchmarks.gateway.load", json.dumps(asdict(wanted))]
    planned = wanted.tokens / wanted.rate + wanted.patience
    done = subprocess.run(
        pinned(cores.load, load),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=2 * planned + SPARE_SECONDS,
    )
    return Seen(**json.loads(done.stdout))
