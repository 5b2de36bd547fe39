"""``python -m demo.vllm`` as a process."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import IncompleteRead

import pytest

from demo.child import free_ports
from demo.vllm.__main__ import settings
from demo.vllm.limits import Limits
from demo.vllm.service import ROOT
from demo.vllm.settings import Settings
from demo.vllm.template import Shape
from tests.demo.client import Client
from tests.demo.recorded import series

Process = subprocess.Popen[str]


@contextmanager
def process(*arguments: str) -> Iterator[Process]:
    command = [sys.executable, "-m", "demo.vllm", "--port", "0", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def ready(running: Process) -> Client:
    assert running.stdout
    word, url, pid = running.stdout.readline().split()
    assert (word, pid) == ("ready", f"pid={running.pid}")
    return Client(url.removeprefix("url="))


def start_time(client: Client) -> float:
    return series(client.get("/metrics").text)["process_start_time_seconds", ()]


def test_sigterm_cuts_open_streams_and_the_process_is_gone_quickly() -> None:
    with process() as running, ready(running).stream() as stream:
        stream.next()
        running.send_signal(signal.SIGTERM)
        with pytest.raises(IncompleteRead):
            stream.response.read()
        assert running.wait(timeout=60) == 0
        assert running.stderr
        assert [line.split()[0] for line in running.stderr] == ["event=start", "event=end"]


def test_fact_21_the_process_ends_with_status_0_after_its_engine_died() -> None:
    with process() as running:
        ready(running).post("/sim/die")
        assert running.wait(timeout=60.0) == 0


def test_the_start_time_is_that_of_the_process() -> None:
    before = time.time()
    with process() as first:
        one = start_time(ready(first))
    with process() as second:
        other = start_time(ready(second))
    # The kernel counts starts in hundredths since boot; the boot time is known to the second.
    assert before - 2 < one < other < time.time() + 2


def test_while_it_loads_the_port_is_shut() -> None:
    (port,) = free_ports(1)
    began = time.monotonic()
    with process("--port", str(port), "--load-seconds", "1") as running:
        with pytest.raises(ConnectionRefusedError):
            Client(f"http://127.0.0.1:{port}").get("/health")
        assert ready(running).get("/health").status == 200
        assert time.monotonic() - began > 1


def test_sigterm_while_it_loads() -> None:
    with process("--load-seconds", "60", "--max-model-len", "100") as running:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=1)
        running.terminate()
        assert running.wait(timeout=60) in {0, -signal.SIGTERM}


def test_a_taken_port_is_one_sentence_and_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with process("--port", port) as running:
            assert running.wait(timeout=60.0) == 1
            assert running.stderr
            line = running.stderr.read()
    assert line == f'event=failed host=127.0.0.1 port={port} why="Address already in use"\n'


def test_options_become_settings() -> None:
    assert settings([]) == Settings()
    line = (
        "--port 1 --model m --max-num-seqs 2 --max-num-batched-tokens 3 --max-model-len 4"
        " --block-size 5 --num-gpu-blocks-override 6 --steps-per-second 7"
        " --prefill-tokens-per-second 8 --data-parallel-size 2 --load-seconds 9"
    )
    found = settings(line.split())
    assert found == Settings(
        port=1,
        model="m",
        limits=Limits(2, 3, 4, 5, 6, 7.0, 8.0),
        data_parallel_size=2,
        load_seconds=9.0,
    )
    assert found.shape is Shape.MULTIPROCESS


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--max-num-seqs 0", "max_num_seqs must be above 0, got 0"),
        ("--max-model-len 200000", "max_model_len 200000 is more than the 130944 tokens"),
        ("--data-parallel-size 0", "data_parallel_size must be at least 1, got 0"),
        ("--load-seconds -1", "load_seconds must not be negative, got -1"),
        ("--port 70000", "port must be from 0 to 65535, got 70000"),
        ("--steps fast", "unrecognized arguments: --steps fast"),
    ],
)
def test_a_bad_command_line_ends_with_status_2(
    arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        settings(arguments.split())
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
