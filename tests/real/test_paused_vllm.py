"""A real vLLM that is paused: its page looks like a hang, and it is neither judged nor asked."""

import time
from collections.abc import Iterator

import pytest
import requests

from exporter.memory import Memory
from exporter.roster import Roster
from fleet.backend import Backend, Kind
from fleet.fetch import Fetcher
from fleet.read import Form, Reader
from fleet.reading import Reading
from fleet.settings import ExporterSettings
from fleet.state import State
from tests.real.test_frozen_vllm import complete, say
from tests.real.vllm_server import Server, freeze

WAIT = 8.0
SETTINGS = ExporterSettings(interval=2.0, timeout=2.0, answer_every=WAIT)


@pytest.fixture(scope="module")
def backend(server: Server) -> Backend:
    return Backend("gpu-a", server.url, Kind.VLLM, WAIT, 240.0)


class Watch:
    """The exporter's own watch of it."""

    def __init__(self, backend: Backend) -> None:
        self.memory = Memory()
        self.roster = Roster(self.memory)
        self.roster.apply((backend,), SETTINGS)

    def state(self) -> State | None:
        return next((s.judgement.backend.state for s in self.memory.snapshots()), None)

    def until(self, state: State, within: float) -> None:
        deadline = time.monotonic() + within
        while self.state() is not state:
            assert time.monotonic() < deadline, self.memory.snapshots()
            time.sleep(0.2)

    def stays(self, state: State, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.state() is state, self.memory.snapshots()
            time.sleep(0.2)

    def close(self) -> None:
        self.roster.close(10.0)


@pytest.fixture
def watch(backend: Backend) -> Iterator[Watch]:
    watch = Watch(backend)
    yield watch
    watch.close()


def test_the_filtered_page_says_what_the_full_one_says(server: Server, backend: Backend) -> None:
    requests.post(
        f"{server.url}/v1/completions",
        json={"model": "tiny", "prompt": "once", "max_tokens": 20},
        timeout=60,
    ).raise_for_status()
    fetcher = Fetcher(backend, "test")
    reader = Reader(fetcher)
    full = reader.read(timeout=10.0)
    assert reader.form is Form.FILTERED
    assert isinstance(full, Reading)
    assert reader.read(timeout=10.0) == full
    fetcher.close()


def test_a_pause_is_no_hang_and_what_comes_after_it_is_judged(server: Server, watch: Watch) -> None:
    complete(server, "once", 20000)
    watch.until(State.BUSY, 30)
    requests.post(f"{server.url}/pause?mode=keep", timeout=10).raise_for_status()
    watch.until(State.PAUSED, 30)
    watch.stays(State.PAUSED, 3 * WAIT)
    say(f"paused for {3 * WAIT:.0f} s with a request running: not stuck")
    requests.post(f"{server.url}/resume", timeout=10).raise_for_status()
    watch.until(State.BUSY, 30)
    freeze(server)
    frozen = time.monotonic()
    watch.until(State.STUCK, 120)
    say(f"resumed, then frozen: stuck after {time.monotonic() - frozen:.0f} s")
    assert time.monotonic() - frozen >= 2 * WAIT - SETTINGS.interval
