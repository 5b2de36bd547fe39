"""Commands whose output somebody stops reading."""

import os
import subprocess
import sys

import pytest

LINES = "[print('x' * 1000) for _ in range(1000)]"
ENDS = {
    "in the middle": f"piped(lambda: len({LINES}) * 0)",
    "at the very end": "piped(lambda: print('x') or 0)",
}


@pytest.mark.parametrize("work", ENDS.values(), ids=ENDS)
def test_where_nobody_reads_it_ends_without_a_word(work: str) -> None:
    code = f"import sys; from fleet.pipe import piped; input(); sys.exit({work})"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert child.stdout
    child.stdout.close()
    _, said = child.communicate(b"go\n", timeout=60)
    assert (child.returncode, said) == (141, b"")


def test_where_all_is_read_the_status_is_the_commands_own() -> None:
    code = f"import sys; from fleet.pipe import piped; sys.exit(piped(lambda: len({LINES}) - 997))"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    assert (done.returncode, len(done.stdout)) == (3, 1001 * 1000)
