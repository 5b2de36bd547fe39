"""A server, and a fetcher of its pages; tests that want another one have their own ``vllm``."""

from collections.abc import Iterator

import pytest

from fleet.backend import Backend, Kind
from fleet.fetch import Fetcher
from tests.fleet.listeners import Listener, Vllm, serving


@pytest.fixture
def vllm() -> Vllm:
    return Vllm()


@pytest.fixture
def fetcher(vllm: Vllm) -> Iterator[Fetcher]:
    with Listener(serving(vllm.answer)) as listener:
        own = Fetcher(Backend("gpu-a", listener.url, Kind.VLLM, 60.0, 600.0), "test")
        yield own
        own.close()
