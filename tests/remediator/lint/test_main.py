"""The command: exit statuses, what it prints, and that no file breaks it."""

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.gather import MOST_BYTES
from fleet.strict_yaml import YamlError
from remediator.lint.__main__ import main
from tests.remediator.lint.judging import judged

FIXTURES = Path(__file__).parent / "fixtures"
SERVER = "services:\n  a:\n    image: vllm/vllm-openai:v1\n    "
RIVAL = SERVER + "labels: [autoheal=true]\n"
TEMPLATE = "it is a template: render it first, `helm template CHART | vllm-remediator lint -`"
NOTE = SERVER + "restart: always\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "status"), [(RIVAL, 1), (NOTE, 0), (SERVER + "init: true\n", 0), ("a: [", 2)]
)
def test_the_exit_status_says_what_there_is_to_mend(folder: Path, text: str, status: int) -> None:
    (folder / "compose.yml").write_text(text.replace("a: [", "services:\n  a: ["))
    assert main(["compose.yml"]) == status


def test_a_finding_is_printed_as_compilers_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "compose.yml").write_text(RIVAL)
    assert main(["compose.yml"]) == 1
    first, fix, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"compose\.yml:4: error: a: .* \[compose-autoheal\]", first)
    assert fix.startswith("    fix: take the server out of it: remove the label (line 4)")
    assert last == "1 error, 0 notes in 1 file"


def test_a_folder_is_searched_and_what_is_not_known_is_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a/compose.yml", "a/b/vllm.service", "a/README.md", "values.yaml", ".git/x.yml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(NOTE if name.endswith("e.yml") else "Restart=always\n")
    (folder / "a" / "again").symlink_to(folder / "a")
    assert main(["."]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "0 errors, 2 notes in 2 files; 2 files of no known kind"
    )


def test_a_file_that_is_named_is_never_passed_over_in_silence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "README.md").write_text("# hello\n")
    (folder / "compose.yml").write_text(NOTE)
    assert main(["README.md", "compose.yml"]) == 0
    assert "README.md: is not looked at: lint knows compose files" in capsys.readouterr().err
    assert main(["README.md"]) == 2


def test_a_folder_with_nothing_in_it_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    assert main(["empty"]) == 2
    assert capsys.readouterr().err.startswith("empty: holds nothing that lint knows")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"services:\n  a: {image: \0}", "bad.yml: is not text: it has a NUL byte"),
        (b"services: \xff", "bad.yml: is not UTF-8 text (byte 10)"),
        (b"#" * (MOST_BYTES + 1), f"bad.yml: is larger than {MOST_BYTES} bytes"),
        (
            b"services:\n  a: {b: c",
            "bad.yml:2:11: is not valid YAML: expected ',' or '}', but got '<stream end>'",
        ),
        (
            b"apiVersion: v1\nkind: Pod\n{{- if .Values.a }}\nspec: {}\n{{- end }}\n",
            "bad.yml:4:1: is not valid YAML: could not find expected ':'; " + TEMPLATE,
        ),
    ],
    ids=["binary", "not UTF-8", "huge", "broken", "template"],
)
def test_what_cannot_be_read_is_one_sentence_and_the_rest_is_looked_at(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, sentence: str
) -> None:
    (folder / "bad.yml").write_bytes(content)
    (folder / "compose.yml").write_text(RIVAL)
    assert main(["bad.yml", "compose.yml"]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"{sentence}\n"
    assert "compose.yml:4: error" in printed.out


def test_what_is_no_file_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "pipe")
    assert main(["missing.yml", "pipe", "a\0b"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "missing.yml: No such file or directory",
        "pipe: is not a regular file",
        "a\0b: is not a file's name",
    ]


def test_a_rendered_chart_comes_by_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RIVAL.encode())))
    assert main(["-"]) == 1
    assert capsys.readouterr().out.startswith("-:4: error: ")


def test_json_has_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "compose.yml").write_text(RIVAL)
    (folder / "README.md").write_text("")
    assert main(["--format", "json", "compose.yml", "README.md", "missing"]) == 2
    told = json.loads(capsys.readouterr().out)
    (finding,) = told.pop("findings")
    assert told == {
        "problems": ["missing: No such file or directory"],
        "files_looked_at": 1,
        "files_not_known": 1,
    }
    assert list(finding) == ["file", "line", "rule", "severity", "why", "fix"]
    assert (finding["line"], finding["rule"], finding["severity"]) == (
        4,
        "compose-autoheal",
        "error",
    )


def test_github_shows_each_finding_at_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a,b.yml").write_text(RIVAL + "    restart: always\n")
    assert main(["--format", "github", "a,b.yml"]) == 1
    error, note = capsys.readouterr().out.splitlines()
    assert error.startswith("::error file=a%2Cb.yml,line=4,title=compose-autoheal::a: ")
    assert note.startswith("::notice file=a%2Cb.yml,line=5,title=compose-restart::a: ")


def test_a_name_that_is_no_text_can_be_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"\xff.yml")
    (folder / name).write_text(RIVAL)
    assert main(["."]) == 1
    assert "\\udcff.yml:4: error" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["--load-time", "soon", "a"], ["--format", "xml", "a"]])
def test_a_bad_command_line_is_status_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(argv)
    assert left.value.code == 2


WORDS = """
services image command entrypoint labels environment healthcheck test interval restart deploy
restart_policy apiVersion kind metadata name spec template containers items livenessProbe
startupProbe readinessProbe httpGet path exec periodSeconds failureThreshold schedule
activeDeadlineSeconds ports containerPort args
"""
KEYS = st.sampled_from(WORDS.split())
SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(
    ["vllm/vllm-openai", "vllm serve", "autoheal=true", "/health", "/v1/chat/completions", "List",
     "CronJob", "Pod", "always", "willfarrell/autoheal", "kubectl delete pod vllm"]
)  # fmt: skip
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6)
)
NAMES = st.sampled_from(
    ["compose.yml", "pod.yaml", "a.json", "vllm.service", "q.container", "crontab", "cron.d/a", "x"]
)


@settings(max_examples=300, deadline=None)
@given(
    NAMES.filter(lambda name: "." in name),
    st.dictionaries(KEYS, TREES, max_size=6).map(lambda tree: {"services": tree}),
    st.booleans(),
)
def test_any_tree_is_looked_at(name: str, tree: dict[str, object], manifest: bool) -> None:
    if manifest:
        pod = {**tree, "apiVersion": "v1", "kind": "Pod"}
        tree = {"apiVersion": "v1", "kind": "List", "items": [pod, tree]}
    for finding in judged(name, json.dumps(tree)):
        assert finding.line == 1


LINES = st.lists(
    st.text()
    | st.sampled_from(
        ["[Service]", "ExecStart=vllm serve", "WatchdogSec=", "Restart=always", "\\", "Exec=x \\",
         "* * * * * systemctl restart vllm", "@daily kill vllm", "services:", "  a: {image: vllm}",
         "    restart: [x]", "---", "kind: Pod", "apiVersion: v1", "spec: {containers: [a, {}]}"]
    )
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(NAMES, LINES)
def test_any_text_is_looked_at_or_one_sentence(name: str, lines: list[str]) -> None:
    text = "\n".join(lines)
    last = text.count("\n") + 1
    try:
        lines_found = [finding.line for finding in judged(name, text)]
    except YamlError as error:
        lines_found = [] if error.line is None else [error.line]
    assert all(1 <= line <= last + 1 for line in lines_found)
