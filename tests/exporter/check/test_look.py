"""Checks of servers over real sockets, on a clock that moves when told."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.check.conclusion import Outcome
from exporter.check.look import Check, once, patience
from exporter.check.state_file import StateFile
from tests.exporter.fleets import SETTINGS, Clock, backend_at
from tests.fleet.listeners import Vllm, closed_port, eventually
from tests.fleet.pages import BUSY, IDLE, page


def _asks(thread: threading.Thread) -> bool:
    return thread.name.startswith("ask-")


class Waiting(threading.Event):
    """Waiting moves the clock; an answer to a request that is open has time to arrive."""

    def __init__(self, clock: Clock, vllm: Vllm) -> None:
        super().__init__()
        self._clock = clock
        self._vllm = vllm

    def wait(self, timeout: float | None = None) -> bool:
        if self._vllm.hold.is_set():
            assert eventually(lambda: not any(map(_asks, threading.enumerate())))
        self._clock.now += timeout or 0.0
        return self.is_set()


def run(url: str, vllm: Vllm) -> tuple[Outcome, float]:
    """The outcome of a foreground check, and after how long it was known."""
    clock = Clock()
    began = clock.now
    check = Check(backend_at(url), SETTINGS, monotonic=clock)
    found = check.run(Waiting(clock, vllm), lambda *_: None)
    check.close()
    return found.outcome, clock.now - began


def test_a_stuck_server_is_proven_after_two_waits(vllm: Vllm, url: str) -> None:
    assert run(url, vllm) == (Outcome.PROVEN, 120.0)
    assert "/v1/completions" not in vllm.paths()


def test_an_idle_server_that_answers_is_healthy(vllm: Vllm, url: str) -> None:
    vllm.page = page({"0": IDLE}, 1000.0)
    found, seconds = run(url, vllm)
    assert found is Outcome.HEALTHY
    # Idle for a whole wait, then asked, then heard.
    assert 60.0 < seconds < patience(backend_at(url), SETTINGS)


def test_a_server_that_froze_while_idle_is_proven(vllm: Vllm, url: str) -> None:
    vllm.page = page({"0": IDLE}, 1000.0)
    vllm.hold.clear()
    assert run(url, vllm) == (Outcome.PROVEN, 180.0)
    vllm.hold.set()


def test_requests_that_wait_for_something_outside_are_given_up_on_in_the_end(
    vllm: Vllm, url: str
) -> None:
    vllm.page = page({"0": {**IDLE, "waiting": 2, "deferred": 2}}, 1000.0)
    found, seconds = run(url, vllm)
    assert found is Outcome.CANNOT_JUDGE
    most = patience(backend_at(url), SETTINGS)
    assert most <= seconds <= most + SETTINGS.interval


def test_a_port_on_which_nobody_listens_is_told_at_the_second_look(vllm: Vllm) -> None:
    with closed_port() as port:
        assert run(f"http://127.0.0.1:{port}", vllm) == (Outcome.CANNOT_JUDGE, 15.0)


def test_a_person_who_has_waited_enough_is_told_what_is_known(url: str) -> None:
    stop = threading.Event()
    stop.set()
    check = Check(backend_at(url), SETTINGS, monotonic=Clock())
    assert check.run(stop, lambda *_: None).outcome is Outcome.CANNOT_JUDGE
    check.close()


class Calls:
    """A probe: one look a call, and nothing but the file in between."""

    def __init__(self, url: str, folder: Path, **of_backend: float) -> None:
        self.backend = replace(backend_at(url), **of_backend)  # type: ignore[arg-type]
        self.state = StateFile(folder / "state.json", boot="this")
        self.clock = Clock()
        self.settings = replace(SETTINGS, timeout=0.5)

    def call(self, times: int = 1) -> Outcome:
        for _ in range(times):
            found = once((self.backend,), self.settings, self.state, monotonic=self.clock)
            self.clock.now += 15.0
        return found[self.backend.name].outcome


def test_two_waits_span_the_calls(vllm: Vllm, url: str, tmp_path: Path) -> None:
    calls = Calls(url, tmp_path)
    assert calls.call(8) is Outcome.UNDECIDED
    assert calls.call() is Outcome.PROVEN
    vllm.page = page({"0": {**BUSY, "steps": 101}}, 1000.0)
    assert calls.call() is Outcome.HEALTHY
    assert calls.call() is Outcome.UNDECIDED


def test_an_idle_engine_is_asked_within_a_call_and_again_by_each_while_it_is_silent(
    vllm: Vllm, url: str, tmp_path: Path
) -> None:
    vllm.page = page({"0": IDLE}, 1000.0)
    vllm.hold.clear()
    calls = Calls(url, tmp_path)
    assert calls.call(12) is Outcome.UNDECIDED
    assert calls.call(2) is Outcome.PROVEN
    assert vllm.paths()["/v1/completions"] >= 8
    vllm.hold.set()


def test_an_idle_engine_that_answers_is_asked_at_its_pace(
    vllm: Vllm, url: str, tmp_path: Path
) -> None:
    vllm.page = page({"0": IDLE}, 1000.0)
    calls = Calls(url, tmp_path)
    assert calls.call(24) is Outcome.HEALTHY
    assert vllm.paths()["/v1/completions"] == 1


def test_one_silent_request_that_is_answered_later_proves_nothing(
    vllm: Vllm, url: str, tmp_path: Path
) -> None:
    vllm.page = page({"0": IDLE}, 1000.0)
    vllm.hold.clear()
    calls = Calls(url, tmp_path)
    calls.call(10)
    vllm.hold.set()
    assert calls.call() is Outcome.HEALTHY
    assert calls.call(12) is Outcome.HEALTHY


def test_calls_too_far_apart_prove_nothing(url: str, tmp_path: Path) -> None:
    calls = Calls(url, tmp_path)
    for _ in range(10):
        assert calls.call() is Outcome.UNDECIDED
        calls.clock.now += 10 * SETTINGS.interval


# As releases before 0.20 have it, and their gauges may be stale.
OLD = {name: value for name, value in BUSY.items() if name not in ("capacity", "deferred")}


def test_an_old_release_that_only_shows_stale_gauges_answers_the_last_question(
    vllm: Vllm, url: str
) -> None:
    vllm.page = page({"0": OLD}, 1000.0)
    assert run(url, vllm) == (Outcome.HEALTHY, 120.0)
    assert vllm.paths()["/v1/completions"] == 1


def test_an_old_release_that_hangs_is_proven_by_the_last_question(
    vllm: Vllm, url: str, tmp_path: Path
) -> None:
    vllm.page = page({"0": OLD}, 1000.0)
    vllm.hold.clear()
    calls = Calls(url, tmp_path)
    assert calls.call(8) is Outcome.UNDECIDED
    assert calls.call() is Outcome.PROVEN
    vllm.hold.set()


@pytest.mark.parametrize(("completions", "answer_every"), [("500 Oops", 300.0), ("200 OK", None)])
def test_an_old_release_that_cannot_be_asked_cannot_be_judged(
    completions: str, answer_every: float | None, vllm: Vllm, url: str, tmp_path: Path
) -> None:
    vllm.page, vllm.completions = page({"0": OLD}, 1000.0), completions
    calls = Calls(url, tmp_path)
    calls.settings = replace(calls.settings, answer_every=answer_every)
    assert calls.call(9) is Outcome.CANNOT_JUDGE
