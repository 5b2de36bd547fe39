"""The command driver on real processes."""

import os
import sys
import time
from pathlib import Path

import pytest

from fleet.backend import Backend, Restart
from fleet.way import Command as Way
from remediator.process import TAIL_BYTES
from remediator.restart.command import Command
from tests.remediator.making import backend
from tests.remediator.processes import DEAF, GRANDCHILD, gone_within, lives

DEAF_GRANDCHILD = """
import subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); "
child = subprocess.Popen(
    [sys.executable, "-c", deaf + "time.sleep(60)"], stdout=subprocess.PIPE
)
child.stdout.readline()
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(60)
"""
SERVER_LEFT_BEHIND = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
"""


def python(script: str, *args: str, timeout: float = 10.0) -> Backend:
    return backend(restart=Restart(Way((sys.executable, "-c", script, *args)), timeout))


def test_a_command_that_ends_well() -> None:
    outcome = Command().restart(python("print('restarting')"))
    assert outcome.ok
    assert outcome.exit_status == 0
    assert outcome.output == "restarting\n"


def test_it_knows_the_backend_from_its_environment_and_from_nothing_else() -> None:
    script = "import os; print(os.environ['LIFEGUARD_BACKEND'], os.environ['LIFEGUARD_URL'])"
    assert Command().restart(python(script)).output == "gpu-a http://127.0.0.1:1\n"


def test_arguments_are_never_filled_in_and_no_shell_sees_them() -> None:
    script = "import sys; print(sys.argv[1:])"
    outcome = Command().restart(python(script, "{backend}", "$HOME", "; echo x"))
    assert outcome.output == "['{backend}', '$HOME', '; echo x']\n"


def test_a_command_that_fails_keeps_its_status_and_both_its_outputs() -> None:
    script = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    outcome = Command().restart(python(script))
    assert not outcome.ok
    assert outcome.exit_status == 3
    assert outcome.output == "out\nerr\n"
    assert outcome.why == "the command ended with status 3"


def test_a_command_that_is_killed_by_somebody() -> None:
    outcome = Command().restart(python("import os; os.kill(os.getpid(), 9)"))
    assert not outcome.ok
    assert outcome.exit_status == -9
    assert outcome.why == "the command was ended by signal 9"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("/no/such/program",), "'/no/such/program' cannot be run: No such file or directory"),
        (("/etc/passwd",), "'/etc/passwd' cannot be run: Permission denied"),
        (("a\0b",), "'a\\x00b' cannot be run: embedded null byte"),
    ],
)
def test_a_program_that_cannot_be_run(argv: tuple[str, ...], why: str) -> None:
    outcome = Command().restart(backend(restart=Restart(Way(argv), 10.0)))
    assert not outcome.ok
    assert outcome.why == why
    assert outcome.exit_status is None


def test_a_backend_without_a_command() -> None:
    assert not Command().restart(backend(restart=None)).ok


def test_only_the_tail_of_the_output_is_kept_and_it_can_be_shown() -> None:
    script = "import sys; sys.stdout.buffer.write(b'x' * 1_000_000 + b'\\x1b[31m\\xffend\\n')"
    output = Command().restart(python(script)).output
    assert output.endswith("\ufffd[31m\ufffdend\n")
    assert len(output) <= TAIL_BYTES


def test_when_its_time_is_up_the_whole_group_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "grandchild"
    began = time.monotonic()
    outcome = Command().restart(python(GRANDCHILD, str(file), timeout=1.5))
    assert not outcome.ok
    assert outcome.why == "the command did not end within 1.5 s and was killed"
    assert time.monotonic() - began < 10
    assert gone_within(int(file.read_text()), 2.0)


def test_a_command_that_does_not_hear_sigterm_is_killed() -> None:
    outcome = Command().restart(python(DEAF, timeout=1.0))
    assert outcome.why.endswith("and was killed")
    assert outcome.output == "deaf\n"


def test_a_grandchild_that_does_not_hear_sigterm_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "grandchild"
    Command().restart(python(DEAF_GRANDCHILD, str(file), timeout=1.5))
    assert gone_within(int(file.read_text()), 2.0)


def test_what_a_command_leaves_behind_neither_holds_us_nor_is_killed() -> None:
    began = time.monotonic()
    outcome = Command().restart(python(SERVER_LEFT_BEHIND))
    assert outcome.ok
    assert time.monotonic() - began < 8
    left = int(outcome.output)
    try:
        assert lives(left)
    finally:
        os.kill(left, 9)


def test_it_reads_nothing_from_our_terminal() -> None:
    assert Command().restart(python("import sys; print(repr(sys.stdin.read()))")).output == "''\n"
