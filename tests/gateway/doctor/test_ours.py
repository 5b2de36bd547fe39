"""Which programs are ours, what vLLM waits for, and which shells swallow SIGTERM."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fleet.recognise import Described
from gateway.doctor.ours import Absent, Program, Shutdown, program, swallowing_shell, words

GATEWAY, VLLM = Program.GATEWAY, Program.VLLM


@pytest.mark.parametrize(
    ("described", "labels", "found"),
    [
        (Described("a", "vllm-gateway:1"), "", GATEWAY),
        (Described("a", "x/vllm-lifeguard:1", "vllm-gateway --config.file=f"), "", GATEWAY),
        (Described("a", "python:3.12", "python -m gateway"), "", GATEWAY),
        (Described("a", "python:3.12", "python3 -m gateway.__main__ --x"), "", GATEWAY),
        (Described("a", "vllm-lifeguard:1"), "vllm-gateway", GATEWAY),
        (Described("gateway", "${IMAGE}"), "vllm", GATEWAY),
        (Described("a", "vllm/vllm-openai:v1", "--model m"), "", VLLM),
        (Described("vllm", "${IMAGE}"), "", VLLM),
        # Others.
        (Described("a", "vllm-lifeguard:1", "vllm-exporter"), "vllm-gateway", None),
        (Described("a", "vllm-lifeguard:1", "vllm-gateway doctor deploy"), "", None),
        (Described("a", "vllm-lifeguard:1", "vllm-gateway drain gpu-a"), "", None),
        (Described("vllm-gateway", "nginx:1.27"), "vllm-gateway", None),
        (Described("gateway", "envoyproxy/gateway:1", "-m gatewayd"), "", None),
        (Described("a", "lmcache/lmstack-router", "vllm-router"), "", None),
    ],
)
def test_a_program_is_recognised(described: Described, labels: str, found: Program | None) -> None:
    assert program(described, labels) is found


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("vllm serve m --shutdown-timeout 30", 30.0),
        ("vllm serve m --shutdown-timeout=0.5", 0.5),
        ("vllm serve m --shutdown_timeout 0", 0.0),
        ("vllm serve m --shutdown-timeout 5 --shutdown-timeout 7", 7.0),
        ("vllm serve m", Absent.NOT_SET),
        ("vllm serve m --shutdown-timeout $T", Absent.NOT_SEEN),
        ("vllm serve m $EXTRA", Absent.NOT_SEEN),
        ("vllm serve --config /etc/vllm.yaml", Absent.NOT_SEEN),
        ("/opt/start.sh", Absent.NOT_SEEN),
    ],
)
def test_the_shutdown_timeout_is_read_where_it_can_be_seen(
    command: str, seconds: float | Absent
) -> None:
    assert Shutdown.of(Described("vllm", "", command)).seconds == seconds


SHELLS = [
    (["sh", "-c", "vllm serve m"], "sh"),
    (["bash", "-c", "vllm serve m"], ""),
    (["bash", "-c", "vllm serve m &"], "bash"),
    (["sh", "-c", "exec vllm serve m"], ""),
    (["sh", "-c", "a && exec vllm serve m"], ""),
    (["sh", "-c", "trap x TERM; vllm serve m"], ""),
    (["bash", "-c", "a && vllm serve m"], ""),
    (["/bin/bash", "-lc", "a\nvllm serve m \\\n --port 8000\n"], ""),
    (["sh", "-c", "a && vllm serve m"], "sh"),
    (["/bin/sh", "-ec", "a; vllm serve m"], "/bin/sh"),
    (["bash", "-c", "vllm serve m | tee log"], "bash"),
    (["bash", "-c", "vllm serve m; b"], "bash"),
    (["sh", "-c", "vllm serve m &"], "sh"),
    (["tini", "--", "sh", "-c", "a; vllm-gateway"], "sh"),
    (["sh", "-c", "a; b"], ""),
    (["sh"], ""),
    (["vllm", "serve", "m"], ""),
]


@pytest.mark.parametrize(("command", "shell"), SHELLS)
def test_a_shell_that_keeps_sigterm_to_itself_is_seen(command: list[str], shell: str) -> None:
    assert swallowing_shell(command) == shell


@pytest.mark.parametrize(
    ("command", "shell"),
    [
        ([shutil.which("dash") or "", *command[1:]] if command[0] == "sh" else command, shell)
        for command, shell in SHELLS
        if command[0] in ("sh", "bash") and len(command) == 3 and "trap" not in command[2]
    ],
)
def test_the_shells_of_this_machine_do_so(command: list[str], shell: str, tmp_path: Path) -> None:
    """The program in place of vLLM writes whether it has the pid that the shell had."""
    program = tmp_path / "vllm"
    program.write_text(
        "#!/usr/bin/env python3\nimport os\nopen('pid', 'w').write(f'{os.getpid()}.')"
    )
    program.chmod(0o755)
    for name in ("a", "b"):
        (tmp_path / name).symlink_to("/bin/true")
    path = f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"
    with subprocess.Popen(command, cwd=tmp_path, env={"PATH": path}) as started:
        started.wait(20)
    written = tmp_path / "pid"
    if "vllm" in command[2]:
        end = time.monotonic() + 20
        while not (written.exists() and written.read_text().endswith(".")):
            assert time.monotonic() < end, "the program never ran"
            time.sleep(0.02)
        assert (written.read_text() == f"{started.pid}.") == (shell == "")


def test_a_line_that_is_no_command_is_read_in_words() -> None:
    assert words("a 'b c' d") == ["a", "b c", "d"]
    assert words("a 'b") == ["a", "'b"]
