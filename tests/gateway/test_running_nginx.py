"""Real gateways behind a real nginx, with the configuration that this project deploys."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.gateway.hearing import CHAT, question
from tests.gateway.nginx import proxied
from tests.gateway.running import Gateway, Simulated, eventually

BODY = question(CHAT, 20) | {"stream": False}
MINE = {"x-request-id": "mine", "authorization": "Bearer a"}
SECONDS = 60.0


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("backend"), "gpu-a", steps_per_second=100) as server:
        yield server


@contextmanager
def behind_nginx(folder: Path, backend: Simulated) -> Iterator[tuple[str, list[Gateway]]]:
    """Two gateways with one ledger, and nginx' URL."""
    own = {"gpu-a": backend.url}
    with Gateway(folder, own, name="one") as one, Gateway(folder, own, name="two") as two:
        for each in (one, two):
            eventually(lambda each=each: each.status("/-/ready") == 200, "it is ready")
        with proxied(folder, {"10.0.0.11": one.port, "10.0.0.12": two.port}) as url:
            yield url, [one, two]


def ask(url: str) -> requests.Response:
    return requests.post(url + CHAT, json=BODY, headers=MINE, timeout=SECONDS)


def who_has_it(gateways: list[Gateway]) -> tuple[Gateway, Gateway]:
    """The gateway that has the request in hand, and the other one."""
    found: list[Gateway] = []

    def look() -> bool:
        found[:] = sorted(gateways, key=lambda each: not each.in_flight())
        return bool(found[0].in_flight())

    eventually(look, "somebody has it")
    return found[0], found[1]


def test_what_a_gateway_gives_back_at_its_end_the_other_one_answers(
    tmp_path: Path, backend: Simulated
) -> None:
    with behind_nginx(tmp_path, backend) as (url, gateways), ThreadPoolExecutor(1) as asking:
        backend.fault("freeze")
        try:
            answer = asking.submit(ask, url)
            first, other = who_has_it(gateways)
            first.term_twice()
            eventually(lambda: bool(other.in_flight()), "the other one has it")
        finally:
            backend.fault("thaw")
        assert answer.result().status_code == 200
        row = other.billed("mine", "complete")
        assert row.completion_tokens == 20
        assert len(other.ledger()) == 1


def test_what_a_gateway_is_killed_with_is_not_generated_twice(
    tmp_path: Path, backend: Simulated
) -> None:
    before = backend.asked(CHAT)
    with behind_nginx(tmp_path, backend) as (url, gateways), ThreadPoolExecutor(1) as asking:
        backend.fault("freeze")
        try:
            answer = asking.submit(ask, url)
            first, other = who_has_it(gateways)
            eventually(lambda: backend.asked(CHAT) == before + 1, "the server has it")
            first.kill()
            refused = answer.result()
        finally:
            backend.fault("thaw")
        assert refused.status_code == 409
        assert refused.headers["retry-after"].isdecimal()
        assert backend.asked(CHAT) == before + 1
        answers: list[requests.Response] = []

        def again() -> bool:
            answers.append(ask(url))
            return answers[-1].status_code != 409

        eventually(again, "its bill is closed")
        assert answers[-1].status_code == 200
        assert other.billed("mine", "complete").completion_tokens == 20
        assert ask(url).status_code == 409
        assert len(other.ledger()) == 1


def test_an_id_that_is_in_use_names_the_same_request_at_one_gateway_too(
    tmp_path: Path, backend: Simulated
) -> None:
    with (
        Gateway(tmp_path, {"gpu-a": backend.url}) as gateway,
        ThreadPoolExecutor(1) as asking,
    ):
        eventually(lambda: gateway.status("/-/ready") == 200, "it is ready")
        backend.fault("freeze")
        try:
            answer = asking.submit(ask, gateway.url)
            eventually(lambda: len(gateway.in_flight()) == 1, "it is queued")
            assert ask(gateway.url).status_code == 409
        finally:
            backend.fault("thaw")
        assert answer.result().status_code == 200
