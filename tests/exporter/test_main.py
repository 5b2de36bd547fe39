"""The command: flags, exit statuses, and its end."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from demo.child import free_ports
from exporter.__main__ import main
from tests.fleet.listeners import eventually

ROOT = Path(__file__).parents[2]
VALID = 'backends: [{name: gpu-a, url: "http://127.0.0.1:9"}]\n'


def run(folder: Path, *flags: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "exporter", *flags],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False


def test_a_valid_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fleet.yml"
    file.write_text(VALID)
    assert main(["--config.file", str(file), "--config.check"]) == 0
    assert capsys.readouterr().out == f"{file}: 1 backend, valid\n"


def test_a_bad_file_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.yml"
    file.write_text(VALID.replace("http:", "ftp:"))
    assert main(["--config.file", str(file), "--config.check"]) == 2
    sentence = f"{file}: backends[0].url: 'ftp://127.0.0.1:9' is not an http(s) URL\n"
    assert capsys.readouterr().err == sentence


def test_a_port_that_is_taken_is_status_1(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(VALID)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with run(tmp_path, "--web.listen-address", listen) as program:
            _, said = program.communicate(timeout=30)
    assert program.returncode == 1
    assert said == f"--web.listen-address: {listen}: Address already in use\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_with_status_0(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(VALID)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    with run(tmp_path, "--web.listen-address", listen) as program:
        assert eventually(lambda: answers(f"http://{listen}/-/ready"), within=30)
        program.send_signal(number)
        program.communicate(timeout=30)
    assert program.returncode == 0


def test_its_pages_are_served_when_it_holds_more_files_than_select_can_wait_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "fleet.yml").write_text(VALID)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        files = [held.enter_context(Path(os.devnull).open()).fileno() for _ in range(1100)]
        program = held.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "exporter", "--web.listen-address", listen],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stderr=subprocess.DEVNULL,
                pass_fds=files,
            )
        )
        held.callback(program.terminate)
        assert eventually(lambda: answers(f"http://{listen}/-/ready"), within=30)
        assert answers(f"http://{listen}/metrics")
