"""The commands against a running remediator, over real sockets."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from flask import Flask

from remediator.__main__ import main
from remediator.commands.exit_status import ExitStatus
from remediator.restart import Outcome
from tests.remediator import making
from tests.remediator.site import TOKEN, Site, served, site, turning
from tests.remediator.stage import BACK

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]


@dataclass
class Terminal:
    """Runs commands and keeps what they said."""

    site: Site
    url: str
    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""

    def __call__(self, *argv: str) -> int:
        words = [argv[0], "--url", self.url, *argv[1:]]
        try:
            status = main(words)
        finally:
            self.out, self.err = self.capsys.readouterr()
        return status

    def with_token(self, *argv: str) -> int:
        return self(argv[0], "--token-file", str(self.site.token_file), *argv[1:])


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from any fleet.yml, with nothing set."""
    monkeypatch.chdir(tmp_path)
    for name in ("LIFEGUARD_REMEDIATOR_URL", "LIFEGUARD_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def type_(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    with site(tmp_path) as made, served(made.app) as url:
        yield Terminal(made, url, capsys)


HOLD = ("hold", "gpu-a", "--for", "2h", "--why", "a batch job", "--by", "alice")


def test_a_backend_is_held_and_released(type_: Terminal) -> None:
    assert type_.with_token(*HOLD) == ExitStatus.OK
    assert type_.out == ("gpu-a is held until 2026-03-01 14:01:00 UTC (hold 1): a batch job\n")
    assert type_.with_token("hold", "--all", "--for", "1h", "--why", "x", "--by", "bob") == 0
    assert type_.with_token("release", "gpu-a", "--by", "alice") == ExitStatus.OK
    assert type_.out.splitlines() == [
        "released hold 1 on gpu-a (alice, until 2026-03-01 14:01:00 UTC: a batch job)",
        "hold 2 on every backend stays until 2026-03-01 13:01:00 UTC",
    ]
    assert type_.with_token("release", "--all") == ExitStatus.OK
    assert type_.out.startswith("released hold 2 on every backend (bob")
    assert type_.with_token("release", "gpu-a") == ExitStatus.OK
    assert type_.out == "no hold on gpu-a was in force\n"


def test_a_backend_is_reset(type_: Terminal) -> None:
    assert type_.with_token("reset", "gpu-a") == ExitStatus.OK
    assert type_.out == "gpu-a is reset; it was not given up\n"


def test_status_has_a_line_for_each_backend_the_most_urgent_first(type_: Terminal) -> None:
    type_.with_token("hold", "gpu-b", "--for", "2h", "--why", "a batch job", "--by", "alice")
    assert type_("status") == ExitStatus.OK
    assert type_.out.splitlines() == [
        "mode act, 0 restarts in 1 h, 3 left, as of 2026-03-01 12:01:00 UTC",
        "BACKEND  SITUATION      RESTARTS  COOLING DOWN UNTIL  LOADS IN  WHY",
        (
            "gpu-b    held           0 of 4    -                   -         "
            "alice holds it until 2026-03-01T14:01:00Z: a batch job"
        ),
        "gpu-a    ready          0 of 4    -                   -         no open incident",
        (
            "router   not_restarted  0 of 4    -                   -         "
            "fleet.yml does not say how it is restarted"
        ),
    ]


def test_why_has_a_line_for_each_question(type_: Terminal) -> None:
    assert type_("why", "gpu-a") == ExitStatus.OK
    assert type_.out == "nothing has been decided about gpu-a yet\n"
    type_.with_token(*HOLD)
    type_.site.stage.tell()
    type_.site.stage.turn()
    assert type_("why", "gpu-a") == ExitStatus.OK
    first, second, head, *questions, last = type_.out.splitlines()
    assert first.startswith("gpu-a: hold held: alice holds gpu-a until 2026-03-01T14:01:00Z")
    assert second == "  incident 1, since 2026-03-01 12:01:00 UTC"
    assert head.split() == ["QUESTION", "ANSWER"]
    assert [line.split()[0] for line in questions] == ["✓", "✓", "✓", "✓", "✗"]
    assert questions[-1].split()[1] == "held"
    assert last.startswith("not asked any more: alert_stands, restarted_since, gave_up")


@pytest.fixture
def restarted(type_: Terminal) -> Terminal:
    stage = type_.site.stage
    stage.restarter.outcome = Outcome(True, "fine", 0, "line 1\nline \x1b[31m2")  # noqa: FBT003
    stage.evidence.where = "somewhere"
    stage.witness.afterwards = BACK
    stage.tell()
    stage.pass_(60)
    return type_


def test_history_has_a_line_for_each_attempt(restarted: Terminal) -> None:
    assert restarted("history", "gpu-b") == ExitStatus.OK
    assert restarted.out == "no attempt yet\n"
    assert restarted("history", "--limit", "5") == ExitStatus.OK
    head, line = restarted.out.splitlines()
    assert head.split() == ["ID", "BACKEND", "PLANNED", "TOOK", "MODE", "STATE", "WHY"]
    assert line.split()[:2] == ["1", "gpu-a"]
    assert "act   recovered  a new process" in line


def test_history_show_has_all_that_is_kept_of_one(restarted: Terminal) -> None:
    assert restarted("history", "show", "1") == ExitStatus.OK
    assert "  output    needs the token\n" in restarted.out
    assert restarted.with_token("history", "show", "1") == ExitStatus.OK
    lines = restarted.out.splitlines()
    assert lines[0] == "attempt 1 on gpu-a: recovered"
    assert "  gateways  no stream was left on it" in lines
    assert "    line \ufffd[31m2" in lines
    assert any(line.startswith("    health.txt ") for line in lines)
    assert any("restart stuck: watched for 31 s" in line for line in lines)


def test_history_show_prints_a_file_of_evidence(restarted: Terminal) -> None:
    assert restarted.with_token("history", "show", "1", "health.txt") == ExitStatus.OK
    assert restarted.out == "200\n"
    assert restarted.with_token("history", "show", "1", "command-1-py-spy.txt") == ExitStatus.OK
    assert restarted.out == "stack <b>\ufffd[31m\n"
    assert restarted("history", "show", "1", "health.txt") == ExitStatus.NOT_AUTHORISED
    assert restarted.err.startswith("a token is needed: --token-file")


def test_the_report_of_shadow_mode(type_: Terminal) -> None:
    assert type_("shadow", "report", "--since", "7d") == ExitStatus.OK
    assert type_.out.splitlines() == [
        "since 2026-02-22 12:01:00 UTC; the mode is act",
        "Too little to tell: 0 cases, and 3 are needed. Leave the mode as it is.",
    ]


@pytest.mark.parametrize(
    "argv",
    [("status",), ("why", "gpu-a"), ("history",), ("history", "show", "1"), ("shadow", "report")],
    ids=" ".join,
)
def test_what_is_read_can_be_had_as_json(restarted: Terminal, argv: tuple[str, ...]) -> None:
    assert restarted(*argv, "--json") == ExitStatus.OK
    assert json.loads(restarted.out)


RESTART = ("restart", "gpu-a", "--why", "a new driver", "--by", "alice")


def test_a_restart_is_followed_to_its_end(type_: Terminal) -> None:
    type_.site.stage.witness.afterwards = BACK
    with turning(type_.site.stage):
        assert type_.with_token(*RESTART) == ExitStatus.OK
    assert type_.out.splitlines() == [
        "gpu-a at http://127.0.0.1:1 would be restarted by the command true",
        "  its 1 gateway is asked to move its streams away first",
        "  no load was seen yet; it has 10 min to come back",
        "  restarts left to it: 4; the last -",
        "gpu-a: recovered: a new process, and the short request was answered in 0.05 s",
    ]
    assert type_.site.stage.restarter.restarted == ["gpu-a"]


def test_a_restart_that_a_guard_refuses_says_which_question_stood_against_it(
    type_: Terminal,
) -> None:
    type_.with_token(*HOLD)
    with turning(type_.site.stage):
        assert type_.with_token(*RESTART) == ExitStatus.REFUSED
    said = "alice holds gpu-a until 2026-03-01T14:01:00Z: a batch job"
    assert f"  now it would be refused by held: {said}\n" in type_.out
    assert type_.err.splitlines()[-1] == f"gpu-a: refused by held: {said}"
    assert type_.site.stage.restarter.restarted == []


def test_a_restart_that_does_not_end_well_says_how(type_: Terminal) -> None:
    stage = type_.site.stage
    stage.restarter.outcome = Outcome(ok=False, why="ended with status 1", exit_status=1)
    with turning(stage):
        assert type_.with_token(*RESTART) == ExitStatus.REFUSED
    assert type_.err.splitlines()[-2:] == [
        "gpu-a: failed: ended with status 1",
        "more: vllm-remediator history show 1",
    ]


def test_without_a_token_nothing_is_done(type_: Terminal) -> None:
    assert type_(*HOLD) == ExitStatus.NOT_AUTHORISED
    assert type_.err == (
        "a token is needed: --token-file, LIFEGUARD_TOKEN_FILE, "
        "or remediator.api_token_file in fleet.yml\n"
    )


def test_a_wrong_token_is_said(type_: Terminal) -> None:
    type_.site.token_file.with_name("wrong").write_text("wrong")
    type_.site.token_file = type_.site.token_file.with_name("wrong")
    assert type_.with_token(*HOLD) == ExitStatus.NOT_AUTHORISED
    assert type_.err == "the Authorization header does not bear the token of api_token_file\n"


def test_a_token_file_that_is_not_there_is_said(type_: Terminal) -> None:
    assert type_(*HOLD, "--token-file", "nowhere") == ExitStatus.NOT_AUTHORISED
    assert type_.err == "--token-file: nowhere: cannot be read: No such file or directory\n"


def test_the_token_is_found_in_the_environment_or_by_fleet_yml(
    type_: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fleet = """
backends: [{name: gpu-a, url: "http://127.0.0.1:1"}]
remediator: {mode: act, token_file: a, api_token_file: api-token, alertmanager: "http://x"}
"""
    (tmp_path / "other.yml").write_text(fleet)
    assert type_(*HOLD, "--config.file", "other.yml") == ExitStatus.OK
    assert type_(*HOLD) == ExitStatus.NOT_AUTHORISED
    (tmp_path / "fleet.yml").write_text(fleet)
    assert type_(*HOLD) == ExitStatus.OK
    (tmp_path / "wrong").write_text("wrong")
    monkeypatch.setenv("LIFEGUARD_TOKEN_FILE", str(tmp_path / "wrong"))
    assert type_(*HOLD) == ExitStatus.NOT_AUTHORISED
    assert type_.with_token(*HOLD) == ExitStatus.OK


def test_the_url_is_found_in_the_environment(
    type_: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIFEGUARD_REMEDIATOR_URL", f"{type_.url}/")
    assert main(["status"]) == ExitStatus.OK
    monkeypatch.setenv("LIFEGUARD_REMEDIATOR_URL", "ftp://x")
    assert main(["status"]) == ExitStatus.USAGE
    assert type_.capsys.readouterr().err == (
        "LIFEGUARD_REMEDIATOR_URL: 'ftp://x' is not an http(s) URL\n"
    )


def test_bad_settings_are_said(type_: Terminal, tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text("backends: 7")
    assert type_("status") == ExitStatus.USAGE
    assert type_.err == "fleet.yml: backends: 7 is not a list\n"


UNKNOWN = [
    (("why", "gpu-aa"), "backend: 'gpu-aa' is not a backend in fleet.yml (did you mean 'gpu-a'?)"),
    (("history", "gpu-aa"), "backend: 'gpu-aa' is not a backend in fleet.yml (did you mean"),
    (("history", "show", "7"), "there is no attempt 7"),
    (("history", "show", "x"), "history show: 'x' is not an attempt's number"),
    (("history", "show"), "history: BACKEND, or: show ID [FILE]"),
    (("history", "a", "b"), "history: BACKEND, or: show ID [FILE]"),
    (("restart", "gpu-aa", "--why", "x"), "backend: 'gpu-aa' is not a backend in fleet.yml"),
    (
        ("hold", "gpu-aa", "--for", "2h", "--why", "x"),
        "backend: 'gpu-aa' is not a backend in fleet.yml (did you mean 'gpu-a'?)",
    ),
    (
        ("hold", "gpu-a", "--for", "9d", "--why", "x"),
        "for: '9d' is longer than longest_hold, which ends at 2026-03-08T12:01:00Z",
    ),
    (("hold", "gpu-a", "--for", "2h", "--why", " "), "why: is required: a reason"),
    (("hold", "gpu-a", "--for", "2h", "--why", "x", "--by", ""), "by: is required: who asks"),
]


@pytest.mark.parametrize(("argv", "sentence"), UNKNOWN, ids=[" ".join(u[0]) for u in UNKNOWN])
def test_what_there_is_not_is_one_sentence(
    type_: Terminal, argv: tuple[str, ...], sentence: str
) -> None:
    assert type_.with_token(*argv) == ExitStatus.USAGE
    assert type_.err.startswith(sentence)
    assert type_.err.count("\n") == 1
    assert type_.out == ""


BAD = [
    ("hold", "gpu-a", "--why", "x"),
    ("hold", "gpu-a", "--for", "2h"),
    ("hold", "--for", "2h", "--why", "x"),
    ("hold", "gpu-a", "--all", "--for", "2h", "--why", "x"),
    ("hold", "gpu-a", "--for", "2 h", "--why", "x"),
    ("restart", "gpu-a"),
    ("shadow",),
    ("history", "--limit", "0"),
    ("status", "--url", "gpu-a:9110"),
    ("status", "--token", "secret"),
]


@pytest.mark.parametrize("argv", BAD, ids=" ".join)
def test_a_bad_command_line_is_status_2(type_: Terminal, argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as raised:
        type_(*argv)
    assert raised.value.code == ExitStatus.USAGE


def test_where_nobody_listens_one_is_told(type_: Terminal) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        type_.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert type_("status") == ExitStatus.UNREACHABLE
    assert type_.err == f"{type_.url} cannot be reached: Connection refused\n"


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (200, "does not speak JSON"),
        (302, "answered 302, and not as a remediator does"),
        (500, "answered 500, and not as a remediator does"),
    ],
)
def test_where_something_else_listens_one_is_told(
    type_: Terminal, status: int, sentence: str
) -> None:
    other = Flask("other")

    @other.get("/<path:path>")
    def anything(path: str) -> tuple[str, int, dict[str, str]]:
        del path
        return "<html>", status, {"Location": type_.url}

    with served(other) as url:
        type_.url = url
        assert type_("status") == ExitStatus.UNREACHABLE
    assert type_.err == f"{url} {sentence}\n"


def test_a_database_that_cannot_be_read_is_told(type_: Terminal) -> None:
    type_.site.stage.store.close()
    (type_.site.stage.folder / "remediator.db").write_bytes(b"no database" * 1000)
    assert type_("status") == ExitStatus.UNREACHABLE
    assert type_.err.count("\n") == 1


def test_a_certificate_is_verified(type_: Terminal, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with served(type_.site.app, tls) as url:
        type_.url = url
        assert type_("status", "--ca-file", "ca.pem") == ExitStatus.OK
        assert type_("status") == ExitStatus.UNREACHABLE
        assert "certificate verify failed" in type_.err
        assert type_("status", "--ca-file", "other.pem") == ExitStatus.UNREACHABLE
        assert type_("status", "--ca-file", "nowhere.pem") == ExitStatus.USAGE
    assert type_.err == "--ca-file: nowhere.pem is not a file\n"


@pytest.mark.parametrize(
    "command", ["status", "why", "history", "hold", "release", "reset", "restart", "shadow"]
)
def test_every_command_has_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main([command, "--help"])
    assert raised.value.code == 0
    told = capsys.readouterr().out
    assert f"usage: vllm-remediator {command}" in told
    assert "130  stopped by you" in told


def test_the_programs_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "status, why, history, hold, release" in capsys.readouterr().out.replace("\n", " ")


def test_ctrl_c_only_stops_watching_and_says_so(type_: Terminal, tmp_path: Path) -> None:
    # Nobody turns: it stays undecided for as long as it is watched.
    command = [
        # A shell's background jobs, and so all that they start, ignore it otherwise.
        *("env", "--default-signal=INT"),
        *(sys.executable, "-m", "remediator", *RESTART, "--url", type_.url),
        *("--token-file", str(type_.site.token_file)),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"decide: asked for\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == ExitStatus.STOPPED
        assert process.stderr.read() == (
            b"not watched any more; the restart goes on. To see it: vllm-remediator why gpu-a\n"
        )
    (incident,) = type_.site.stage.store.incidents.open()
    assert incident.asked_why == "a new driver"


def test_whoever_reads_no_further_is_no_mistake(type_: Terminal, tmp_path: Path) -> None:
    for i in range(30):
        stage = type_.site.stage
        stage.store.holds.add("*", making.at(3600 + i), "alice", "x" * 900, stage.clock())
    command = f"{sys.executable} -m remediator status --url {type_.url}; echo $? >&2"
    ended = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.stdout.startswith("mode act")
    assert ended.stderr == "0\n"


def test_no_token_is_ever_shown(type_: Terminal) -> None:
    for argv in (HOLD, ("status",), ("history", "show", "1")):
        type_.with_token(*argv)
        assert TOKEN not in type_.out + type_.err
