"""``vllm-exporter check`` as people and probes run it: processes, their words and statuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.check import __main__ as command
from tests.fleet.listeners import Vllm, closed_port
from tests.fleet.pages import IDLE, page

QUICK = ("--wait=2s", "--interval=1s", "--timeout=1s", "--warm-up=1s")


def check(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "exporter", "check", *argv],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_stuck_server_is_status_1_and_one_sentence(url: str) -> None:
    done = check(url, *QUICK)
    assert done.returncode == 1, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{url}: PROVEN STUCK OR DEAD"
    assert second.startswith("  engine 0 stuck: 2 running, 1 waiting, and nothing moved for ")
    assert done.stderr == ""


def test_json_tells_the_same_of_a_healthy_one(vllm: Vllm, url: str) -> None:
    vllm.page = page({"0": IDLE}, 1000.0)
    done = check(url, "--json", "--no-ask", *QUICK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {
            "url": url,
            "outcome": "healthy",
            "state": "idle",
            "why": "idle: nothing running or waiting",
            "engines": [
                {
                    "engine": "0",
                    "state": "idle",
                    "why": "idle: nothing running or waiting",
                    "quiet_seconds": 0.0,
                }
            ],
        }
    ]


def test_quiet_says_nothing_and_the_worst_of_several_counts(url: str) -> None:
    with closed_port() as port:
        nobody = f"http://127.0.0.1:{port}"
        assert (done := check(nobody, "--quiet", *QUICK)).returncode == 2
        assert check(nobody, "--quiet", "--liveness", *QUICK).returncode == 0
        assert check(nobody, url, "--quiet", *QUICK).returncode == 1
    assert (done.stdout, done.stderr) == ("", "")


def test_a_probe_returns_at_once_and_says_what_is_not_known_yet(url: str, tmp_path: Path) -> None:
    done = check(url, f"--state-file={tmp_path / 'state'}", "--liveness")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{url}: nothing is proven against it so far\n  engine 0 busy:")


@pytest.mark.parametrize(("flag", "status"), [((), 2), (("--liveness",), 0)])
def test_a_state_file_that_cannot_be_used_is_one_sentence(
    flag: tuple[str, ...], status: int, url: str, tmp_path: Path
) -> None:
    missing = tmp_path / "missing" / "state"
    done = check(url, f"--state-file={missing}", *flag)
    assert done.returncode == status
    assert done.stderr == f"{missing}: cannot be used: No such file or directory\n"


def test_a_crash_of_ours_is_never_proof(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(command, "_found", broken)
    assert command.main([url]) == 2
    assert command.main([url, "--liveness"]) == 0
    assert "RuntimeError: a bug" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    {
        ("ftp://x",): "argument URL: 'ftp://x' is not an http(s) URL",
        ("http://u:SECRET@x",): "argument URL: 'http://***@x' has a user or password in it",
        ("http://x", "--wait=5"): "argument --wait: '5' is not a duration such as 90s",
        ("http://x", "--wait=20s"): "--wait: 20s is shorter than two looks (--interval)",
        ("http://x", "--timeout=20s"): "--timeout: 20s is longer than --interval",
        (): "the following arguments are required: URL",
    }.items(),
)
def test_a_bad_command_line_is_one_sentence_and_status_2(
    argv: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        command.main(argv)
    said = capsys.readouterr().err
    assert exit_.value.code == 2
    assert sentence in said
    assert "SECRET" not in said
