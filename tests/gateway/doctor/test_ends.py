"""How services of compose files and units of systemd end."""

import pytest

from tests.gateway.doctor.judging import judged_files, rules


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("stop_grace_period: 1m", []),
        ("stop_grace_period: 59s", ["grace-gateway"]),
        ("stop_grace_period: 59s999ms", ["grace-gateway"]),
        ("stop_grace_period: $GRACE", []),
        ("init: true", ["grace-gateway"]),
        ("stop_grace_period: 1m\n    stop_signal: 15", []),
        ("stop_grace_period: 1m\n    stop_signal: QUIT", ["stop-signal"]),
        ("stop_grace_period: 1m\n    stop_signal: $S", []),
        ("stop_grace_period: 1m\n    entrypoint: sh -c 'a; vllm-gateway'", ["shell-signal"]),
    ],
)
def test_a_service_has_the_window_to_end_in(settings: str, expected: list[str]) -> None:
    text = f"services:\n  a:\n    image: vllm-gateway\n    {settings}\n"
    assert rules(compose_yml=text) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("TimeoutStopSec=40\nKillMode=mixed", []),
        ("TimeoutStopSec=30\nKillMode=mixed", ["grace-vllm"]),
        ("TimeoutStopSec=1min 5s\nKillMode=mixed", []),
        ("TimeoutSec=10\nKillMode=mixed", ["grace-vllm"]),
        ("TimeoutStopSec=infinity\nKillMode=mixed", []),
        ("TimeoutStopSec=soon\nKillMode=mixed", []),
        ("KillMode=mixed", []),
        ("KillMode=process", ["kill-mode"]),
        ("", ["kill-mode"]),
        ("KillMode=mixed\nKillSignal=TERM", []),
    ],
)
def test_a_unit_of_a_server_ends_mixed_and_in_time(settings: str, expected: list[str]) -> None:
    unit = f"[Service]\nExecStart=vllm serve m --shutdown-timeout 30\n{settings}\n"
    assert rules(a_service=unit) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("docker run vllm/vllm-openai:v1 --shutdown-timeout 30", ["grace-vllm"]),
        ("/usr/bin/podman run --stop-timeout=40 vllm/vllm-openai --shutdown-timeout 30", []),
        ("docker run --stop-timeout 10 x/vllm-openai:1 --shutdown-timeout 30", ["grace-vllm"]),
        ("/bin/sh -c 'a; vllm serve m --shutdown-timeout 30'", ["kill-mode", "shell-signal"]),
        ("/opt/vllm-exporter", []),
        ("/usr/bin/postgres", []),
    ],
)
def test_a_unit_is_judged_by_what_it_starts(start: str, expected: list[str]) -> None:
    assert sorted(rules(a_service=f"[Service]\nExecStart={start}\n")) == expected


def test_a_drop_in_alone_is_judged_by_what_it_says() -> None:
    def alone(text: str) -> list[str]:
        found = judged_files({"vllm.service.d/a.conf": text})
        return [str(each.rule) for each in found]

    assert alone("[Service]\nMemoryMax=1G\n") == []
    assert alone("[Service]\nKillMode=process\n") == ["kill-mode"]
    assert alone("[Service]\nExecStart=vllm serve m\n") == ["shutdown-timeout"]
    gateway = "[Service]\nTimeoutStopSec=5\n"
    (finding,) = judged_files({"vllm-gateway.service.d/a.conf": gateway})
    assert str(finding.rule) == "grace-gateway"
