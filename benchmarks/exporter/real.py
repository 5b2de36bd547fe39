"""What a look costs a real vLLM: CPU of its API server's process, and of its engine's."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests

from benchmarks.exporter.cpu import cpu_seconds
from demo.child import free_ports
from fleet.fetch import METRICS
from fleet.read import FILTERED
from tests.real.vllm_server import Server, engines, members, running

LOOKS = 300
CHATS = 60
TIMEOUT = 30.0


@dataclass(frozen=True)
class Asked:
    """CPU seconds of one request, of the API server and of the engine."""

    api: float
    engine: float


def looks(folder: Path) -> dict[str, Asked]:
    """The CPU of a filtered look, a full one and a chat probe of one token, on an idle server."""
    with (
        running(Server(folder / "vllm", free_ports(1)[0])) as server,
        requests.Session() as session,
    ):
        chat = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "1"}],
            "max_tokens": 1,
        }
        acts: dict[str, tuple[int, Callable[[], requests.Response]]] = {
            "chat": (
                CHATS,
                lambda: session.post(
                    f"{server.url}/v1/chat/completions", json=chat, timeout=TIMEOUT
                ),
            ),
            "full": (LOOKS, lambda: session.get(server.url + METRICS, timeout=TIMEOUT)),
            "filtered": (LOOKS, lambda: session.get(server.url + FILTERED, timeout=TIMEOUT)),
        }
        return {name: _asked(server, *act) for name, act in acts.items()}


def _asked(server: Server, times: int, act: Callable[[], requests.Response]) -> Asked:
    act().raise_for_status()
    api = members(server)[0].pid
    engine = engines(server)[0].pid
    before = cpu_seconds(api), cpu_seconds(engine)
    for _ in range(times):
        act().raise_for_status()
    after = cpu_seconds(api), cpu_seconds(engine)
    return Asked((after[0] - before[0]) / times, (after[1] - before[1]) / times)
