"""The init-like script, as a command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from demo.child import free_ports
from demo.vllm.service import ROOT, Status
from tests.demo.client import Client, eventually
from tests.demo.recorded import series


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Script:
    """The script for one service in one directory, on a port of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = str(free_ports(1)[0])
        self.client = Client(f"http://127.0.0.1:{self.port}")

    def __call__(self, command: str, *arguments: str, name: str = "gpu-a") -> Ended:
        where = ("--dir", str(self.directory), name)
        ended = subprocess.run(
            [sys.executable, "-m", "demo.vllm.service", command, *where, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *arguments: str) -> Ended:
        return self("start", "--", "--port", self.port, *arguments)

    def pid(self) -> int:
        return int((self.directory / "gpu-a.pid").read_text())

    def up(self) -> bool:
        try:
            return self.client.get("/health").status == 200
        except OSError:
            return False

    def start_time(self) -> float:
        return series(self.client.get("/metrics").text)["process_start_time_seconds", ()]


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path / "services")
    yield script
    script("stop")


def test_start_status_stop(script: Script) -> None:
    started = script.start("--model", "big")
    assert started == (Status.DONE, f"gpu-a is starting, as process {script.pid()}\n", "")
    eventually(script.up, "the port is open")
    assert script.client.get("/v1/models").json["data"][0]["id"] == "big"
    assert script("status") == (
        Status.DONE,
        f"gpu-a is running, as process {script.pid()}\n",
        "",
    )
    assert script("stop") == (Status.DONE, "gpu-a is stopped\n", "")
    assert not script.up()
    assert script("status") == (Status.NOT_RUNNING, "", "gpu-a is not running\n")
    assert "event=end why=terminated" in (script.directory / "gpu-a.log").read_text()


def test_start_returns_before_the_server_is_ready(script: Script) -> None:
    began = time.monotonic()
    script.start("--load-seconds", "30")
    assert time.monotonic() - began < 20
    assert not script.up()
    assert script("status").status == Status.DONE


def test_restart_is_another_process_with_the_same_arguments(script: Script) -> None:
    script.start("--model", "big")
    eventually(script.up, "the port is open")
    first = script.start_time()
    with script.client.stream() as stream:
        stream.next()
        assert script("restart").status == Status.DONE
    eventually(script.up, "the port is open again")
    assert script.start_time() > first
    assert script.client.get("/v1/models").json["data"][0]["id"] == "big"


def test_restart_with_other_arguments_remembers_those(script: Script) -> None:
    script.start()
    script("restart", "--", "--port", script.port, "--model", "other")
    script("stop")
    script("start")
    eventually(script.up, "the port is open")
    assert script.client.get("/v1/models").json["data"][0]["id"] == "other"


def test_a_server_that_ignores_sigterm_is_killed(script: Script) -> None:
    script.start()
    eventually(script.up, "the port is open")
    os.kill(script.pid(), signal.SIGSTOP)
    assert script("stop").status == Status.DONE
    assert script("status").status == Status.NOT_RUNNING


def test_it_lives_in_a_session_of_its_own(script: Script) -> None:
    script.start()
    assert os.getsid(script.pid()) == script.pid() != os.getsid(0)


def test_a_stranger_with_the_same_pid_is_left_alone(script: Script) -> None:
    script.start()
    script("stop")
    record = script.directory / "gpu-a.json"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        kept = json.loads(record.read_text()) | {"pid": stranger.pid}
        record.write_text(json.dumps(kept))
        assert script("stop") == (Status.NOT_RUNNING, "", "gpu-a is not running\n")
        assert stranger.poll() is None


class TestFailures:
    def test_already_running(self, script: Script) -> None:
        script.start()
        ended = script.start()
        assert ended.status == Status.ALREADY_RUNNING
        assert ended.err == f"gpu-a is already running, as process {script.pid()}\n"

    @pytest.mark.parametrize("command", ["stop", "restart", "status"])
    def test_never_started(self, script: Script, command: str) -> None:
        assert script(command) == (Status.UNKNOWN, "", "gpu-a has never been started here\n")

    def test_no_such_command(self, script: Script) -> None:
        assert script("reload").status == Status.BAD_COMMAND_LINE

    def test_a_name_that_is_a_path(self, script: Script) -> None:
        ended = script("start", name="../gpu-a")
        assert ended.status == Status.BAD_COMMAND_LINE
        assert "a name has letters, digits, dots and dashes: '../gpu-a'" in ended.err

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        ended = Script(tmp_path / "file" / "services")("start")
        assert ended.status == Status.NOT_MADE
        assert ended.err.startswith("start gpu-a: ")
