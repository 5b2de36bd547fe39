"""A real server as the tournament's methods see it: what is scaled, and what is counted."""

import threading
import time
from collections.abc import Iterator

import pytest

from benchmarks.tournament.event import HangKind
from benchmarks.tournament.methods.chat import ChatWatchdog
from benchmarks.tournament.real import OLDER, Clock, RealServer
from benchmarks.tournament.seen import FIRST_START, REFUSED, Seen, Ticket
from benchmarks.tournament.watch import Frozen, Truth, Watch
from fleet.fetch import Trouble
from fleet.reading import Reading
from tests.fleet.listeners import Listener, Vllm, closed_port, eventually, serving

IDLE = 'vllm:num_requests_running{engine="0",model_name="tiny"} 0\n'
BUSY = 'vllm:num_requests_running{engine="0",model_name="tiny"} 1\n'


@pytest.fixture
def vllm() -> Vllm:
    return Vllm(page=IDLE)


@pytest.fixture
def url(vllm: Vllm) -> Iterator[str]:
    with Listener(serving(vllm.answer)) as listener:
        yield listener.url
        vllm.hold.set()


@pytest.fixture
def clock() -> Clock:
    return Clock(10.0)


@pytest.fixture
def server(url: str, clock: Clock) -> Iterator[RealServer]:
    server = RealServer(url, clock)
    yield server
    server.close()


def sent(server: Seen, prompt: int = 30, target: int = 16) -> Ticket:
    ticket = server.send(0.0, None, prompt, target)
    assert isinstance(ticket, Ticket)
    return ticket


def test_ten_virtual_seconds_go_by_in_a_real_one(clock: Clock) -> None:
    real, virtual = time.monotonic(), clock.now()
    time.sleep(0.05)
    between = clock.now() - virtual
    assert 0.5 <= between <= 10 * (time.monotonic() - real)
    assert clock.real(5.0) == 0.5
    assert clock.real(-5.0) == 0


def test_a_process_that_starts_now_is_seen_as_one_of_two_hours_ago(
    vllm: Vllm, server: RealServer, clock: Clock
) -> None:
    def started(unix: float) -> float:
        vllm.page = f"process_start_time_seconds {unix}\n"
        reading = server.metrics(0.0, 5.0)
        assert isinstance(reading, Reading)
        assert reading.start_time is not None
        return reading.start_time - FIRST_START

    at = time.time()
    assert started(at) == pytest.approx(clock.now() - OLDER, abs=50.0)
    assert started(at) - started(at - 60.0) == pytest.approx(600.0, abs=0.01)


def test_health_and_the_page_are_what_the_server_says(vllm: Vllm, server: RealServer) -> None:
    assert server.health(0.0, 5.0) is None
    assert server.is_paused(0.0) is None
    vllm.health, vllm.metrics, vllm.paused = "503 Gone", "500 No", '{"is_paused": true}'
    failure = server.health(0.0, 5.0)
    assert failure is not None
    assert failure.status == 503
    page = server.metrics(0.0, 5.0)
    assert not isinstance(page, Reading)
    assert page.kind is Trouble.HTTP_ERROR
    assert server.is_paused(0.0) is True
    vllm.paused = '{"is_paused": false}'
    assert server.is_paused(0.0) is False


def test_a_request_is_answered_at_a_virtual_time(
    vllm: Vllm, server: RealServer, clock: Clock
) -> None:
    vllm.hold.clear()
    ticket = sent(server)
    assert vllm.asked.wait(60.0)
    assert server.answered_at(ticket, 0.0) is None
    held = clock.now()
    vllm.hold.set()
    assert eventually(lambda: server.answered_at(ticket, 0.0) is not None)
    answered = server.answered_at(ticket, 0.0)
    assert answered is not None
    assert held <= answered <= clock.now()
    assert ticket.error_at is None


def test_an_error_is_no_answer(vllm: Vllm, server: RealServer) -> None:
    vllm.completions = "503 Gone"
    ticket = sent(server)
    assert eventually(lambda: ticket.error_at is not None)
    assert server.answered_at(ticket, 0.0) is None


def test_who_hangs_up_does_not_wait_for_the_answer(vllm: Vllm, server: RealServer) -> None:
    vllm.hold.clear()
    ticket = sent(server)
    assert vllm.asked.wait(60.0)
    server.abandon(ticket, 0.0)
    assert ticket.error_at is not None
    assert not vllm.hold.is_set()
    assert server.answered_at(ticket, 0.0) is None
    server.abandon(ticket, 0.0)


def test_where_nobody_listens_nothing_is_sent(clock: Clock) -> None:
    with closed_port() as port:
        server = RealServer(f"http://127.0.0.1:{port}", clock)
        assert server.send(0.0, None, 1, 1) == REFUSED
        server.close()


def test_requests_to_a_server_with_something_to_do_are_counted(
    vllm: Vllm, server: RealServer
) -> None:
    server.abandon(sent(server), 0.0)
    assert server.sent_to_pending == 0
    vllm.page = BUSY
    server.abandon(sent(server), 0.0)
    assert server.sent_to_pending == 1


def test_five_misses_are_a_false_call_where_it_is_healthy_and_found_where_it_hangs(
    vllm: Vllm, url: str
) -> None:
    vllm.page = BUSY
    vllm.hold.clear()
    # 1,300 virtual seconds for the five misses, in a quarter of a second.
    truth, clock = Truth("batch"), Clock(5000.0)
    watch = Watch(ChatWatchdog(), url, clock, truth)
    stop = threading.Event()
    watching = threading.Thread(target=watch.run, args=(stop,))
    watching.start()
    assert eventually(lambda: watch.calls.false["batch"] > 0)
    assert watch.calls.sent_to_busy >= 5
    truth.hang = Frozen(HangKind.RUNNING, clock.now())
    watching.join(60.0)
    stop.set()
    watching.join(60.0)
    assert HangKind.RUNNING in watch.calls.found
    assert watch.calls.found[HangKind.RUNNING] > 0
    assert watch.calls.missed((HangKind.RUNNING, HangKind.IDLE)) == 1
    watch.close()
