"""A server to look at, over real sockets; tests that want another one have their own ``vllm``."""

from collections.abc import Iterator

import pytest

from tests.fleet.listeners import Listener, Vllm, serving
from tests.fleet.pages import BUSY, page


@pytest.fixture
def vllm() -> Vllm:
    return Vllm(page=page({"0": BUSY}, 1000.0))


@pytest.fixture
def url(vllm: Vllm) -> Iterator[str]:
    with Listener(serving(vllm.answer)) as listener:
        yield listener.url
