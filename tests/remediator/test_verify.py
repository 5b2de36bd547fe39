"""Proofs over real sockets: what is asked of a server, what is never asked, and what is seen."""

from datetime import UTC, datetime

import pytest

from demo.child import free_ports
from fleet.backend import Backend
from fleet.settings import Mode
from remediator.incident import AttemptState
from remediator.proof import Proof, Request, Sight
from remediator.verify import Verifier
from tests.remediator import making
from tests.remediator.tiny_vllm import Engine, TinyVLLM

COMPLETIONS = "/v1/completions"


IN_VAIN = 1.5  # seconds; long enough for a loaded machine to say which models it serves


def verifier(answer_within: float = IN_VAIN) -> Verifier:
    limits = making.limits(confirm_for=0.3, answer_within=answer_within)
    return Verifier(limits, lambda: datetime.now(UTC))


def at(server: TinyVLLM) -> Backend:
    return making.backend(url=server.url)


def patience(server: TinyVLLM) -> float:
    """How long its answer is waited for, in seconds: one that comes has all the time it needs."""
    return making.limits().answer_within if server.behaves.answers else IN_VAIN


def prove(server: TinyVLLM, engine: str | None = "0") -> Proof:
    return verifier(patience(server)).prove(at(server), engine)


def nobody() -> Backend:
    """A backend at a port where nobody listens."""
    return making.backend(url=f"http://127.0.0.1:{free_ports(1)[0]}")


def test_a_frozen_engine_is_still_and_does_not_answer() -> None:
    with TinyVLLM() as server:
        seen = prove(server)
    assert seen.saw.sight is Sight.STILL
    assert seen.request is Request.UNANSWERED
    assert seen.seconds >= IN_VAIN
    assert seen.start_time == 1_700_000_000.0
    assert not seen.dead
    assert server.asked("/metrics") >= 3
    assert server.asked(COMPLETIONS) == 1


def test_an_engine_that_moves_is_never_sent_a_request() -> None:
    with TinyVLLM(engines={"0": Engine(speed=1000)}) as server:
        seen = prove(server)
    assert seen.saw.sight is Sight.MOVED
    assert seen.request is Request.NOT_SENT
    assert server.requests.count("/metrics") == 2
    assert server.asked(COMPLETIONS) == server.asked("/v1/models") == 0


def test_an_idle_engine_that_answers() -> None:
    with TinyVLLM(engines={"0": Engine(running=0)}, answers=200) as server:
        seen = prove(server)
    assert seen.request is Request.ANSWERED
    assert seen.seconds >= 0.3


def test_an_engine_that_moves_late_is_seen_to() -> None:
    with TinyVLLM() as server:
        late = Engine(tokens=101)

        def move(seconds: float) -> None:
            server.thawed.wait(seconds)
            if server.asked(COMPLETIONS):
                server.behaves.engines["0"] = late

        limits = making.limits(confirm_for=0.3, answer_within=IN_VAIN)
        seen = Verifier(limits, lambda: datetime.now(UTC), move).prove(at(server), "0")
    assert seen.saw.sight is Sight.MOVED


def test_a_dead_queue_that_our_own_request_joins_stands_still() -> None:
    with TinyVLLM(engines={"0": Engine(running=0)}, queued=6) as server:
        seen = prove(server)
    assert seen.saw.sight is Sight.STILL
    assert seen.request is Request.UNANSWERED
    assert server.asked(COMPLETIONS) == 1


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_an_http_error_is_neither_an_answer_nor_silence(status: int) -> None:
    with TinyVLLM(answers=status) as server:
        seen = prove(server)
    assert seen.request is Request.ERROR
    assert str(status) in seen.request_why


def test_a_sleeping_engine_is_sent_nothing() -> None:
    with TinyVLLM(engines={"0": Engine(awake=0)}) as server:
        seen = prove(server)
    assert seen.saw.sight is Sight.ASLEEP
    assert server.asked(COMPLETIONS) == 0


def test_a_paused_server_is_sent_nothing() -> None:
    with TinyVLLM(paused=True) as server:
        seen = prove(server)
    assert seen.paused
    assert server.asked(COMPLETIONS) == 0


def test_a_server_whose_weights_are_updated_and_that_does_not_tell_may_be_paused() -> None:
    with TinyVLLM(updates_weights=True) as server:
        seen = prove(server)
    assert seen.paused
    assert server.asked(COMPLETIONS) == 0
    with TinyVLLM(updates_weights=True, paused=False) as server:
        seen = prove(server)
    assert not seen.paused


def test_a_server_that_says_it_is_not_paused() -> None:
    with TinyVLLM(paused=False) as server:
        seen = prove(server)
    assert not seen.paused
    assert seen.request is Request.UNANSWERED


def test_a_page_with_nan_in_it_cannot_be_read() -> None:
    with TinyVLLM(malformed=True) as server:
        seen = prove(server)
    assert seen.saw.sight is Sight.UNREADABLE
    assert server.asked(COMPLETIONS) == 0


def test_a_metrics_page_that_fails_cannot_be_read() -> None:
    with TinyVLLM(metrics=500) as server:
        seen = prove(server)
    assert seen.saw.sight is Sight.UNREADABLE
    assert "500" in seen.saw.why
    assert seen.reading is None


def test_only_the_engine_in_question_counts_and_is_asked_by_its_rank() -> None:
    engines = {"0": Engine(), "1": Engine(speed=1000)}
    with TinyVLLM(engines=engines) as server:
        frozen, moving = prove(server, "0"), prove(server, "1")
    assert frozen.saw.sight is Sight.STILL
    assert moving.saw.sight is Sight.MOVED
    assert server.ranks == ["0"]


def test_the_only_engine_is_asked_without_a_rank() -> None:
    with TinyVLLM(answers=200) as server:
        prove(server, "0")
    assert server.ranks == [None]


def test_a_dead_engine_by_its_health() -> None:
    with TinyVLLM(health=503, answers=503) as server:
        seen = prove(server, None)
    assert seen.dead
    assert seen.saw.sight is Sight.STILL
    assert seen.request is Request.ERROR


def test_a_dead_engine_whose_page_is_gone() -> None:
    with TinyVLLM(health=503, metrics=503, answers=503) as server:
        seen = prove(server, None)
    assert seen.dead
    assert seen.saw.sight is Sight.UNREADABLE
    assert seen.seconds >= 0.3


def test_nobody_listens() -> None:
    seen = verifier().prove(nobody(), None)
    assert seen.saw.sight is Sight.REFUSED
    assert seen.request is Request.ERROR
    assert seen.seconds >= 0.3


def after(server: TinyVLLM, *, ask_it: bool = False, **changed: object) -> tuple[bool, Request]:
    tried = making.attempt(AttemptState.STARTING, before=making.reading(1_600_000_000.0), **changed)
    seen = verifier(patience(server)).after(at(server), tried, ask_it=ask_it)
    assert seen.reading is not None
    return seen.moved, seen.request


def test_after_a_restart_the_new_process_is_asked() -> None:
    with TinyVLLM(engines={"0": Engine(running=0)}, answers=200) as server:
        assert after(server) == (False, Request.ANSWERED)


def test_after_a_restart_a_new_process_at_work_is_not_asked() -> None:
    with TinyVLLM(engines={"0": Engine(speed=1000)}) as server:
        assert after(server) == (True, Request.NOT_SENT)
    assert server.asked(COMPLETIONS) == 0


def test_after_a_restart_the_same_process_is_asked_only_at_the_end() -> None:
    with TinyVLLM(start=1_600_000_000.0, engines={"0": Engine(tokens=20_000)}) as server:
        assert after(server) == (False, Request.NOT_SENT)
        assert server.asked("/metrics") == 1
        assert after(server, ask_it=True) == (False, Request.UNANSWERED)


def test_in_shadow_nothing_is_ever_asked() -> None:
    with TinyVLLM() as server:
        assert after(server, mode=Mode.SHADOW) == (False, Request.NOT_SENT)
        assert after(server, mode=Mode.SHADOW, ask_it=True) == (False, Request.NOT_SENT)
    assert server.asked(COMPLETIONS) == 0


def test_after_a_restart_nobody_listens_yet() -> None:
    seen = verifier().after(nobody(), making.attempt(AttemptState.STARTING), ask_it=True)
    assert seen.reading is None
    assert "refused" in seen.why


def test_a_server_that_goes_away_in_the_middle_of_a_look() -> None:
    with TinyVLLM() as server:

        def break_it(_: float) -> None:
            server.behaves.metrics = 500

        limits = making.limits(confirm_for=0.3, answer_within=IN_VAIN)
        looking = Verifier(limits, lambda: datetime.now(UTC), break_it)
        seen = looking.after(at(server), making.attempt(AttemptState.STARTING), ask_it=False)
    assert seen.reading is None


def test_a_pause_that_is_not_told_as_it_ought_to_be_is_none() -> None:
    for paused in ("yes", 1, None):
        with TinyVLLM(paused=paused) as server:
            assert not prove(server).paused
