"""The command: flags, exit statuses, and its end."""

import os
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
        return requests.get(url, timeout=60).ok
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


HOLDS_MANY = """
import os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
from exporter.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_its_pages_are_served_when_it_holds_more_files_than_select_can_wait_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "fleet.yml").write_text(VALID)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_MANY, "--web.listen-address", listen],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    ) as program:
        served = eventually(lambda: answers(f"http://{listen}/-/ready"), within=30)
        program.terminate()
    assert served
    assert program.returncode == 0


def test_pages_that_cannot_be_served_any_more_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __init__(self, *_: object, sockets: list[socket.socket], **__: object) -> None:
            self.sockets = sockets

        def run(self) -> None:
            for sock in self.sockets:
                sock.close()
            raise ValueError("filedescriptor out of range in select()")

    file = tmp_path / "fleet.yml"
    file.write_text(VALID)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("exporter.serve.create_server", Broken)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    assert main(["--config.file", str(file), "--web.listen-address", listen]) == 1
    assert "event=web_failed" in caplog.text
