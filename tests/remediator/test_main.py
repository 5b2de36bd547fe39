"""The program as it is started: flags, settings, exit statuses, signals."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import trustme

from demo.child import free_ports
from remediator.__main__ import main
from tests.remediator.test_notification import body, one

ROOT = Path(__file__).parents[2]
FLEET = """
backends: [{name: gpu-a, url: "http://127.0.0.1:1", restart: {command: ["true"]}}]
remediator: {mode: act, token_file: token, alertmanager: "http://127.0.0.1:1"}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret\n")
    file = tmp_path / "fleet.yml"
    file.write_text(FLEET)
    return file


def check(file: Path) -> int:
    return main(["--config.file", str(file), "--config.check"])


def test_settings_that_are_valid(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(fleet) == 0
    assert capsys.readouterr().out == f"{fleet}: valid, mode: act, backends: 1\n"
    assert not (fleet.parent / "remediator.db").exists()


MISTAKES = {
    "no section": (
        "backends: [{name: gpu-a, url: 'http://x'}]",
        "secret",
        "{file}: remediator: is required by vllm-remediator",
    ),
    "no mode": (
        FLEET.replace("mode: act, ", ""),
        "secret",
        (
            "{file}: remediator.mode: is required: 'act' restarts what is proven stuck, "
            "'shadow' decides and records the same but restarts nothing"
        ),
    ),
    "no token": (
        FLEET,
        None,
        "{file}: remediator.token_file: {folder}/token: cannot be read: No such file or directory",
    ),
    "no password": (
        FLEET.replace(
            "token_file: token", "basic_auth: {username: alertmanager, password_file: password}"
        ),
        None,
        (
            "{file}: remediator.basic_auth.password_file: {folder}/password: cannot be read: "
            "No such file or directory"
        ),
    ),
    "no certificate": (
        FLEET.replace(
            "token_file: token", "token_file: token, tls: {certificate_file: c, key_file: k}"
        ),
        "secret",
        (
            "{file}: remediator.tls.certificate_file: {folder}/c cannot be read: "
            "No such file or directory"
        ),
    ),
    "an empty token": (FLEET, "\n", "{file}: remediator.token_file: {folder}/token: is empty"),
    "a token of two lines": (
        FLEET,
        "one\ntwo\n",
        "{file}: remediator.token_file: {folder}/token: is not one line of ASCII text",
    ),
    "a token that is no ASCII": (
        FLEET,
        "é",
        "{file}: remediator.token_file: {folder}/token: is not one line of ASCII text",
    ),
}


@pytest.mark.parametrize(("text", "token", "sentence"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_in_the_settings_is_one_sentence_and_status_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    token: str | None,
    sentence: str,
) -> None:
    file = tmp_path / "fleet.yml"
    file.write_text(text)
    if token is not None:
        (tmp_path / "token").write_text(token)
    assert check(file) == 2
    expected = sentence.format(file=file, folder=tmp_path)
    assert capsys.readouterr().err == f"{expected}\n"


def test_a_database_that_cannot_be_used_is_a_mistake_in_the_settings(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.write_text(FLEET.replace("mode: act", "mode: act, database: 'sqlite://'"))
    assert main(["--config.file", str(fleet)]) == 2
    assert "remediator.database: an SQLite database in memory" in capsys.readouterr().err


def test_a_flag_that_is_none_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--web.listen-address", "nowhere"])
    assert raised.value.code == 2
    assert "'nowhere' is not HOST:PORT" in capsys.readouterr().err


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@contextmanager
def running(
    fleet: Path, port: int, *, trusted: Path | None = None
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The program in a process of its own, ready; over TLS where ``trusted`` signed for it."""
    url = f"{'https' if trusted else 'http'}://127.0.0.1:{port}"
    with (fleet.parent / "log").open("ab") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "remediator", "--config.file", str(fleet)),
                *("--web.listen-address", f"127.0.0.1:{port}"),
            ],
            stderr=log,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            cwd=fleet.parent,
        )
        try:
            _wait_ready(f"{url}/-/ready", process, trusted)
            yield process, url
        finally:
            process.kill()
            process.wait()


def _wait_ready(url: str, process: "subprocess.Popen[bytes]", trusted: Path | None) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        try:
            if requests.get(url, timeout=1, verify=str(trusted) if trusted else True).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.05)
    raise AssertionError(f"not ready: {process.poll()}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_soon_and_well(fleet: Path, port: int, number: signal.Signals) -> None:
    with running(fleet, port) as (process, _):
        process.send_signal(number)
        assert process.wait(timeout=60.0) == 0
    assert "event=stopping" in (fleet.parent / "log").read_text()


def test_what_it_acknowledged_survives_sigkill(fleet: Path, port: int) -> None:
    with running(fleet, port) as (process, url):
        told = requests.post(
            f"{url}/api/alerts",
            data=body(one()),
            headers={"Authorization": "Bearer secret"},
            timeout=60,
        )
        assert told.json() == {"stored": 1}
        process.kill()
    with running(fleet, port) as (_, url):
        (incident,) = requests.get(f"{url}/api/incidents", timeout=60).json()
        assert incident["backend"] == "gpu-a"
        assert requests.get(f"{url}/metrics", timeout=60).text.startswith("# HELP remediator_mode")
        assert "vllm-remediator" in requests.get(url, timeout=60).text


def test_where_somebody_listens_already_it_cannot(fleet: Path, port: int) -> None:
    listen = f"127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)):
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "remediator", "--config.file", str(fleet)),
                *("--web.listen-address", listen),
            ],
            capture_output=True,
            check=False,
            text=True,
            timeout=30,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    assert ended.returncode == 1
    assert f"--web.listen-address: {listen}: Address already in use" in ended.stderr


def test_over_tls_with_a_user_and_a_password(fleet: Path, port: int) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    (fleet.parent / "c").write_bytes(issued.cert_chain_pems[0].bytes())
    (fleet.parent / "k").write_bytes(issued.private_key_pem.bytes())
    (fleet.parent / "ca").write_bytes(authority.cert_pem.bytes())
    (fleet.parent / "password").write_text("hunter2\n")
    fleet.write_text(
        FLEET.replace(
            "token_file: token",
            "tls: {certificate_file: c, key_file: k}, "
            "basic_auth: {username: alertmanager, password_file: password}",
        )
    )
    with running(fleet, port, trusted=fleet.parent / "ca") as (process, url):
        assert url.startswith("https://")
        for auth, status in ((("alertmanager", "hunter2"), 200), (("alertmanager", "x"), 401)):
            told = requests.post(
                f"{url}/api/alerts",
                data=body(one()),
                auth=auth,
                verify=str(fleet.parent / "ca"),
                timeout=60,
            )
            assert told.status_code == status
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60.0) == 0
    assert "hunter2" not in (fleet.parent / "log").read_text()
