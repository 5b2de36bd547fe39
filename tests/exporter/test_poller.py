"""Looks at servers over real sockets; what is asked of them is counted there."""

from dataclasses import replace

import pytest

from exporter.asking import Asking, Heard
from exporter.memory import Memory
from exporter.poller import Poller
from fleet.answer import Result
from fleet.backend import Kind
from fleet.state import State
from tests.exporter.fleets import SETTINGS, Clock, backend_at
from tests.fleet.listeners import Vllm, eventually
from tests.fleet.pages import BUSY, IDLE, page

ASKED = "/v1/completions"


@pytest.fixture
def vllm() -> Vllm:
    return Vllm(page=page({"0": IDLE}, 1000.0))


def poller(url: str, clock: Clock, kind: Kind = Kind.VLLM) -> Poller:
    return Poller(backend_at(url, kind=kind), SETTINGS, Memory(), monotonic=clock, wall=lambda: 0.0)


def polled(poller: Poller, clock: Clock, times: int) -> State:
    """The state after so many polls at the interval."""
    for _ in range(times):
        clock.now += SETTINGS.interval
        state = poller.poll().judgement.backend.state
    return state


WORKING = {
    "running": {**IDLE, "running": 1},
    "waiting": {**IDLE, "waiting": 1, "capacity": 1},
    "waiting for something outside": {**IDLE, "waiting": 1, "deferred": 1},
    "asleep": {**IDLE, "awake": 0},
}


@pytest.mark.parametrize("values", WORKING.values(), ids=WORKING)
def test_a_server_with_anything_to_do_is_sent_nothing(
    values: dict[str, float], vllm: Vllm, url: str
) -> None:
    vllm.page = page({"0": values}, 1000.0)
    polled(poller(url, clock := Clock()), clock, 40)
    assert set(vllm.paths()) <= {"/metrics", "/metrics/", "/health", "/is_paused"}


def test_a_server_on_which_anything_moves_is_asked_for_its_page_alone(vllm: Vllm, url: str) -> None:
    watching, clock = poller(url, Clock()), Clock()
    polled(watching, clock, 1)
    vllm.requests.clear()
    for step in range(1, 20):
        vllm.page = page({"0": {**IDLE, "steps": 100 + step}}, 1000.0)
        polled(watching, clock, 1)
    assert set(vllm.paths()) == {"/metrics"}


def test_an_idle_engine_is_asked_after_a_whole_wait_and_then_at_its_pace(
    vllm: Vllm, url: str
) -> None:
    watching = poller(url, clock := Clock())
    polled(watching, clock, 4)
    assert vllm.paths()[ASKED] == 0
    polled(watching, clock, 1)
    assert eventually(lambda: vllm.paths()[ASKED] == 1)
    polled(watching, clock, 19)
    assert vllm.paths()[ASKED] == 1
    polled(watching, clock, 1)
    assert eventually(lambda: vllm.paths()[ASKED] == 2)


def test_one_request_at_most_is_in_flight_and_its_silence_is_proof(vllm: Vllm, url: str) -> None:
    vllm.hold.clear()
    watching = poller(url, clock := Clock())
    polled(watching, clock, 5)
    assert vllm.asked.wait(60.0)
    assert polled(watching, clock, 9) is State.STUCK
    polled(watching, clock, 60)
    assert vllm.most_in_flight == 1
    vllm.hold.set()


def test_a_new_process_is_not_asked_while_a_request_to_the_old_one_is_open(
    vllm: Vllm, url: str
) -> None:
    vllm.hold.clear()
    watching = poller(url, clock := Clock())
    polled(watching, clock, 5)
    assert vllm.asked.wait(60.0)
    vllm.page = page({"0": IDLE}, 2000.0)
    polled(watching, clock, 10)
    vllm.hold.set()
    assert eventually(lambda: vllm.in_flight == 0)
    assert vllm.most_in_flight == 1


def test_an_answer_is_counted_and_ends_the_silence(vllm: Vllm, url: str) -> None:
    vllm.hold.clear()
    watching = poller(url, clock := Clock())
    polled(watching, clock, 9)
    assert vllm.asked.wait(60.0)
    vllm.hold.set()
    assert eventually(lambda: watching.poll().answers[Result.ANSWERED] == 1)
    assert polled(watching, clock, 1) is State.IDLE


def test_health_that_says_503_is_a_dead_engine(vllm: Vllm, url: str) -> None:
    watching = poller(url, clock := Clock())
    polled(watching, clock, 2)
    vllm.health = "503 Service Unavailable"
    assert polled(watching, clock, 1) is State.ENGINE_DEAD
    vllm.health = "200 OK"
    assert polled(watching, clock, 1) is State.IDLE


def test_a_proxy_is_asked_for_its_models_only(vllm: Vllm, url: str) -> None:
    watching = poller(url, clock := Clock(), Kind.PROXY)
    assert polled(watching, clock, 40) is State.PROXY
    assert set(vllm.paths()) == {"/v1/models"}


def test_a_paused_server_is_neither_judged_nor_sent_anything(vllm: Vllm, url: str) -> None:
    vllm.page = page({"0": BUSY}, 1000.0)
    vllm.paused = '{"is_paused": true}'
    watching = poller(url, clock := Clock())
    assert polled(watching, clock, 40) is State.PAUSED
    vllm.page = page({"0": IDLE}, 1000.0)
    polled(watching, clock, 40)
    assert vllm.paths()[ASKED] == 0


def test_a_pause_that_ends_is_judged_from_then_on(vllm: Vllm, url: str) -> None:
    vllm.page = page({"0": BUSY}, 1000.0)
    vllm.paused = '{"is_paused": true}'
    watching = poller(url, clock := Clock())
    polled(watching, clock, 20)
    vllm.paused = '{"is_paused": false}'
    # The interval in which it ended counts for nothing, and two waits are eight intervals.
    assert polled(watching, clock, 8) is State.QUIET
    assert polled(watching, clock, 1) is State.STUCK


UPDATES = 'vllm:rl_weight_update_operation_duration_seconds_count{operation="update"} 3\n'


@pytest.mark.parametrize(
    ("paused", "state"), [(None, State.UNKNOWN), ('{"is_paused": false}', State.STUCK)]
)
def test_where_weights_are_updated_only_a_plain_no_lets_silence_count(
    paused: str | None, state: State, vllm: Vllm, url: str
) -> None:
    vllm.page = page({"0": BUSY}, 1000.0) + UPDATES
    vllm.paused = paused
    assert polled(poller(url, clock := Clock()), clock, 12) is state


def test_a_server_that_may_be_paused_is_sent_nothing(vllm: Vllm, url: str) -> None:
    vllm.page = page({"0": IDLE}, 1000.0) + UPDATES
    polled(poller(url, clock := Clock()), clock, 40)
    assert vllm.paths()[ASKED] == 0


def test_a_pooling_model_is_asked_for_an_embedding_and_then_for_nothing_else(
    vllm: Vllm, url: str
) -> None:
    vllm.pooling = True
    vllm.completion = '{"data": [{"embedding": [0.1]}]}'
    watching = poller(url, clock := Clock())
    polled(watching, clock, 5)
    for asked in (1, 2, 3):
        assert eventually(lambda: watching.poll().answers[Result.ANSWERED] == asked)  # noqa: B023
        polled(watching, clock, 20)
    assert eventually(lambda: vllm.paths()["/v1/embeddings"] == 4)
    assert vllm.paths()[ASKED] == 1


def test_a_new_process_is_asked_for_its_pages_anew(vllm: Vllm, url: str) -> None:
    vllm.filtered = lambda _: ""
    watching = poller(url, clock := Clock())
    polled(watching, clock, 5)
    assert vllm.paths()["/metrics/"] == vllm.paths()["/is_paused"] == 1
    vllm.page = page({"0": IDLE}, 2000.0)
    polled(watching, clock, 3)
    assert vllm.paths()["/metrics/"] == vllm.paths()["/is_paused"] == 2


def test_a_new_process_has_time_to_compile(vllm: Vllm, url: str) -> None:
    vllm.page = page({"0": {**IDLE, "steps": 0, "generated": 0, "running": 1}}, 1000.0)
    warm = replace(backend_at(url), warm_up=180.0)
    watching = Poller(warm, SETTINGS, Memory(), monotonic=(clock := Clock()), wall=lambda: 0.0)
    assert polled(watching, clock, 12) is State.STARTING
    assert polled(watching, clock, 2) is State.BUSY
    assert polled(watching, clock, 6) is State.QUIET
    assert polled(watching, clock, 1) is State.STUCK


def test_every_request_sent_has_one_end_even_if_asking_fails() -> None:
    def broken() -> None:
        raise RuntimeError("no fetcher")

    asking = Asking(backend_at("http://127.0.0.1:9"), broken, patience=1.0)  # type: ignore[arg-type]
    asking.send("0", several=False)
    ends: list[Heard] = []

    def one_ended() -> bool:
        ends.extend(asking.ended())
        return bool(ends)

    assert eventually(one_ended)
    assert [end.answer.result for end in ends] == [Result.ERROR]
    assert not asking.in_flight("0")
