"""The Docker driver on real container engines, and on servers that are none."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fleet.backend import Backend, Restart
from fleet.way import Docker as Way
from remediator.restart.deadline import SLACK_SECONDS
from remediator.restart.docker import Docker
from tests.remediator.making import backend
from tests.remediator.restart.engine import DEAF, ENDS, ENGINES, HEARS, Engine
from tests.remediator.restart.fake_engine import Bad, FakeEngine

NOBODY = 65534


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine: Engine = request.param()
    yield engine
    engine.stop()


@pytest.fixture
def bad() -> Iterator[Callable[[Bad], FakeEngine]]:
    engines: list[FakeEngine] = []

    def start(how: Bad) -> FakeEngine:
        engines.append(FakeEngine(how))
        return engines[-1]

    yield start
    for engine in engines:
        engine.stop()


@contextmanager
def somebody_else() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def server(
    host: str, container: str = "gpu-a", grace: float = 5.0, timeout: float = 30.0
) -> Backend:
    return backend(restart=Restart(Way(container, host, grace), timeout))


def test_a_container_gets_sigterm_and_is_started_anew(engine: Engine) -> None:
    engine.run("gpu-a", HEARS)
    before = engine.pid("gpu-a")
    outcome = Docker().restart(server(engine.host))
    assert outcome.ok, outcome
    assert outcome.why == "the container 'gpu-a' was restarted"
    after = engine.pid("gpu-a")
    assert after != before
    assert f"before: running, pid {before}, " in outcome.output
    assert f"after: running, pid {after}, " in outcome.output
    assert "heard" in engine.output("gpu-a")


def test_one_that_does_not_hear_sigterm_is_killed_after_the_grace(engine: Engine) -> None:
    engine.run("deaf", DEAF)
    before = engine.pid("deaf")
    began = time.monotonic()
    outcome = Docker().restart(server(engine.host, "deaf", grace=2.0))
    assert outcome.ok, outcome
    assert time.monotonic() - began >= 2
    assert engine.pid("deaf") != before


def test_a_part_of_a_second_of_grace_is_a_second(bad: Callable[[Bad], FakeEngine]) -> None:
    engine = bad(Bad.REFUSES)
    Docker().restart(server(engine.host, grace=0.2))
    (asked,) = engine.asked
    assert asked.endswith("/restart?t=1")


def test_a_container_that_ends_as_soon_as_it_is_started(engine: Engine) -> None:
    engine.run("ends", ENDS)
    outcome = Docker().restart(server(engine.host, "ends"))
    assert not outcome.ok
    assert outcome.why == "the container 'ends' was started and ended at once with status 3"


def test_a_container_that_there_is_not(engine: Engine) -> None:
    outcome = Docker().restart(server(engine.host, "nobody"))
    assert not outcome.ok
    assert outcome.why == f"there is no container 'nobody' at {engine.host}"


def test_when_its_time_is_up_the_engine_goes_on_and_that_is_said(engine: Engine) -> None:
    engine.run("deaf", DEAF)
    before = engine.pid("deaf")
    outcome = Docker().restart(server(engine.host, "deaf", grace=10.0, timeout=6.0))
    assert not outcome.ok
    assert outcome.why == (
        f"the engine at {engine.host} did not answer within 6 s; it may still restart the container"
    )
    assert engine.pid("deaf") == before
    until = time.monotonic() + 30
    while engine.pid("deaf") in (before, 0):
        assert time.monotonic() < until, "it did not go on"
        time.sleep(0.1)


def test_a_socket_that_is_not_ours(engine: Engine) -> None:
    engine.socket.chmod(0o600)
    engine.folder.chmod(0o755)
    with somebody_else():
        outcome = Docker().restart(server(engine.host))
    assert not outcome.ok
    assert outcome.why == f"we may not use the engine at {engine.host}: Permission denied"


def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    host = f"unix://{tmp_path}/none.sock"
    outcome = Docker().restart(server(host))
    assert not outcome.ok
    assert outcome.why == f"no engine answers at {host}: No such file or directory"


def test_a_port_that_nobody_listens_on() -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        outcome = Docker().restart(server(host))
    assert not outcome.ok
    assert outcome.why == f"no engine answers at {host}: Connection refused"


def test_an_engine_that_never_answers_is_asked_for_nothing_more(
    bad: Callable[[Bad], FakeEngine],
) -> None:
    mute = bad(Bad.MUTE)
    outcome = Docker().restart(server(mute.host, timeout=1.0))
    assert not outcome.ok
    assert outcome.why == (
        f"the engine at {mute.host} did not answer within 1 s; it was not asked for more"
    )
    assert mute.asked == []


def test_an_error_of_the_engine_is_one_line(bad: Callable[[Bad], FakeEngine]) -> None:
    refuses = bad(Bad.REFUSES)
    outcome = Docker().restart(server(refuses.host))
    assert not outcome.ok
    assert outcome.why == (
        "the engine could not restart 'gpu-a': cannot kill container: it is in the kernel"
    )


def test_an_engine_that_is_lost_in_the_middle(bad: Callable[[Bad], FakeEngine]) -> None:
    lost = bad(Bad.HANGS_UP)
    outcome = Docker().restart(server(lost.host))
    assert not outcome.ok
    assert outcome.why.startswith(f"the engine at {lost.host} was lost: ")
    assert outcome.why.endswith("; it may still restart the container")
    assert len(lost.asked) == 1


def test_an_answer_in_drops_does_not_hold_us(bad: Callable[[Bad], FakeEngine]) -> None:
    began = time.monotonic()
    outcome = Docker().restart(server(bad(Bad.TRICKLES).host, grace=1.0, timeout=2.0))
    assert not outcome.ok
    assert time.monotonic() - began < 2 + SLACK_SECONDS + 5
    assert "within 2 s" in outcome.why


def test_a_server_that_is_no_engine(bad: Callable[[Bad], FakeEngine]) -> None:
    other = bad(Bad.NO_ENGINE)
    outcome = Docker().restart(server(other.host))
    assert not outcome.ok
    assert outcome.why.startswith(f"no engine answers at {other.host}: ")


def test_a_backend_that_is_restarted_otherwise() -> None:
    assert not Docker().restart(backend()).ok
