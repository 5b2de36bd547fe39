"""Programs that are started for a while are ended, however the one that started them ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WAIT = 30.0
STARTER = """
import sys, time
from pathlib import Path
from demo.child import Child, sigterm_as_ctrl_c
sigterm_as_ctrl_c()
child = Child("sleeper", ["sleep", "600"], Path(sys.argv[1]))
try:
    print(child.pid, flush=True)
    time.sleep(600)
finally:
    child.stop()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_started_ends_with_the_one_that_did(
    tmp_path: Path, number: signal.Signals
) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    with starter.stdout:
        started = int(starter.stdout.readline())
    starter.send_signal(number)
    starter.wait(WAIT)
    deadline = time.monotonic() + WAIT
    while Path(f"/proc/{started}").exists():
        if time.monotonic() > deadline:
            os.kill(started, signal.SIGKILL)
            pytest.fail("it still runs")
        time.sleep(0.01)
