"""The systemd driver on a real systemd."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.backend import Backend, Restart
from fleet.way import Systemd as Way
from remediator.restart.systemd import Systemd, environment
from tests.remediator.making import backend
from tests.remediator.restart.manager import Manager, System

RULES = Path(__file__).parents[3] / "deploy" / "systemd" / "50-vllm-lifeguard.rules"
SLEEPS = "ExecStart=/bin/sleep 600"
DEAF = "ExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'"


@pytest.fixture(scope="module")
def started() -> Iterator[Manager]:
    manager = Manager()
    yield manager
    manager.stop()


@pytest.fixture
def manager(started: Manager, monkeypatch: pytest.MonkeyPatch) -> Manager:
    for name, value in started.environment.items():
        monkeypatch.setenv(name, value)
    return started


@pytest.fixture(scope="module")
def booted() -> Iterator[System]:
    system = System(RULES)
    yield system
    system.stop()


@pytest.fixture
def system(booted: System, monkeypatch: pytest.MonkeyPatch) -> System:
    monkeypatch.setenv("PATH", str(booted.folder / "bin"), prepend=os.pathsep)
    return booted


def unit(name: str, timeout: float = 20.0, *, user: bool = True) -> Backend:
    return backend(restart=Restart(Way(name, user=user), timeout))


def test_a_unit_is_stopped_and_started(manager: Manager) -> None:
    manager.unit("vllm@gpu-a.service", SLEEPS)
    manager.control("start", "vllm@gpu-a.service")
    before = manager.value("vllm@gpu-a.service", "MainPID")
    outcome = Systemd().restart(unit("vllm@gpu-a.service"))
    assert outcome.ok, outcome
    assert outcome.why == "the user's systemd has restarted vllm@gpu-a.service"
    assert outcome.exit_status == 0
    assert manager.value("vllm@gpu-a.service", "MainPID") not in (before, "0")
    assert manager.value("vllm@gpu-a.service", "ActiveState") == "active"


def test_a_process_that_does_not_hear_sigterm_is_killed_by_systemd(manager: Manager) -> None:
    manager.unit("deaf.service", DEAF, "TimeoutStopSec=1")
    manager.control("start", "deaf.service")
    before = manager.value("deaf.service", "MainPID")
    assert Systemd().restart(unit("deaf.service")).ok
    assert manager.value("deaf.service", "MainPID") not in (before, "0")


@pytest.mark.usefixtures("manager")
def test_a_unit_that_there_is_not() -> None:
    outcome = Systemd().restart(unit("nobody.service"))
    assert not outcome.ok
    assert outcome.why == "the user's systemd has no unit nobody.service"
    assert outcome.exit_status == 5
    assert "Unit nobody.service not found." in outcome.output


def test_a_unit_that_is_masked(manager: Manager) -> None:
    manager.mask("masked.service")
    outcome = Systemd().restart(unit("masked.service"))
    assert not outcome.ok
    assert outcome.why.startswith("the user's systemd could not restart masked.service: ")


def test_a_unit_that_does_not_start(manager: Manager) -> None:
    manager.unit("fails.service", "Type=oneshot", "ExecStart=/bin/false")
    outcome = Systemd().restart(unit("fails.service"))
    assert not outcome.ok
    assert outcome.exit_status == 1
    assert outcome.why == (
        "the user's systemd could not restart fails.service: Job for fails.service failed because "
        "the control process exited with error code"
    )
    assert "journalctl" in outcome.output


def test_when_our_time_is_up_the_job_goes_on_and_that_is_said(manager: Manager) -> None:
    manager.unit("slow.service", DEAF, "TimeoutStopSec=4")
    manager.control("start", "slow.service")
    before = manager.value("slow.service", "MainPID")
    began = time.monotonic()
    outcome = Systemd().restart(unit("slow.service", timeout=1.0))
    assert not outcome.ok
    assert outcome.why == (
        "the user's systemd has not restarted slow.service within 1 s; "
        "we no longer wait, and its job goes on"
    )
    assert "slow.service" in manager.control("list-jobs")
    until = began + 30
    while manager.value("slow.service", "MainPID") in (before, "0"):
        assert time.monotonic() < until, "the job did not go on"
        time.sleep(0.1)


def test_one_that_never_says_that_it_is_ready_is_waited_for_until_then(manager: Manager) -> None:
    manager.unit("mute.service", "Type=notify", SLEEPS)
    outcome = Systemd().restart(unit("mute.service", timeout=1.0))
    assert not outcome.ok
    assert "its job goes on" in outcome.why
    assert manager.value("mute.service", "ActiveState") == "activating"
    manager.control("stop", "mute.service")


def test_the_shipped_rule_lets_its_user_restart_a_unit_of_vllm(system: System) -> None:
    system.control("start", "vllm@gpu-a.service")
    before = system.value("vllm@gpu-a.service", "MainPID")
    outcome = Systemd().restart(unit("vllm@gpu-a.service", user=False))
    assert outcome.ok, outcome
    assert outcome.why == "systemd has restarted vllm@gpu-a.service"
    assert system.value("vllm@gpu-a.service", "MainPID") not in (before, "0")


def test_the_shipped_rule_allows_no_other_unit(system: System) -> None:
    system.control("start", "other.service")
    before = system.value("other.service", "MainPID")
    outcome = Systemd().restart(unit("other.service", user=False))
    assert not outcome.ok
    assert outcome.why == (
        "systemd does not allow us to restart other.service: "
        "Failed to restart other.service: Interactive authentication required"
    )
    assert system.value("other.service", "MainPID") == before


def test_no_manager_to_speak_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    outcome = Systemd().restart(unit("vllm.service"))
    assert not outcome.ok
    assert outcome.why.startswith("the user's systemd cannot be reached: Failed to connect to bus")


def test_no_systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = Systemd().restart(unit("vllm.service"))
    assert not outcome.ok
    assert outcome.why == "'systemctl' cannot be run: No such file or directory"


def test_a_service_without_a_login_finds_its_users_manager_where_there_is_one(
    tmp_path: Path,
) -> None:
    assert environment({}, tmp_path) == {"LC_ALL": "C", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert environment({"XDG_RUNTIME_DIR": "/mine"}, tmp_path) == {"LC_ALL": "C"}
    assert environment({}, tmp_path / "none") == {"LC_ALL": "C"}


def test_a_backend_that_is_restarted_otherwise() -> None:
    assert not Systemd().restart(backend()).ok
