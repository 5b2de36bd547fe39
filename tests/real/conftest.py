"""The real vLLM that tests share: started once, and set right again for who comes next."""

import time
from collections.abc import Iterator

import pytest

from demo.child import free_ports
from tests.real.vllm_server import READY_SECONDS, Server, engines, restart, running, wait_ready

# Small, so that a long prompt takes many steps.
FLAGS = ("--max-num-batched-tokens", "256")


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("vllm")
    with running(Server(folder, free_ports(1)[0], FLAGS, dev=True)) as server:
        yield server


@pytest.fixture(scope="module")
def server(started: Server) -> Server:
    """The one server, ready: it is restarted where another module left it frozen."""
    if any(engine.state == "T" for engine in engines(started)):
        restart(started)
    wait_ready(started.url, time.monotonic() + READY_SECONDS)
    return started
