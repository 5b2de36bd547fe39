"""The command: exit statuses, what it prints, and that no file breaks it."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.finding import UnreadableError
from fleet.strict_yaml import YamlError
from gateway.doctor.__main__ import main
from tests.gateway.doctor.judging import judged_files

WRONG = "services:\n  a:\n    image: vllm-gateway\n    stop_grace_period: 9s\n"
RIGHT = WRONG.replace("9s", "90s")
NOTE = (
    "services:\n  a:\n    image: vllm/vllm-openai\n    command: $ARGS\n    stop_grace_period: 1h\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "status"), [(WRONG, 1), (NOTE, 0), (RIGHT, 0), ("services:\n  a: [", 2)]
)
def test_the_exit_status_says_what_there_is_to_mend(folder: Path, text: str, status: int) -> None:
    (folder / "compose.yml").write_text(text)
    assert main(["compose.yml"]) == status


def test_a_finding_is_printed_with_both_numbers_and_the_line_to_write(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "compose.yml").write_text(WRONG)
    assert main(["compose.yml"]) == 1
    error = (
        "compose.yml:4: error: a: stop_grace_period is 9 s, has to be at least 60 s: window 60 s "
        "(propagation 5 s + drain 45 s + margin 10 s); SIGKILL cuts what is still in flight "
        "[grace-gateway]"
    )
    fix = "    fix: stop_grace_period: 60s"
    assert capsys.readouterr().out.splitlines() == [error, fix, "1 error, 0 notes in 1 file"]


def test_json_has_both_values_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "compose.yml").write_text(WRONG)
    (folder / "README.md").write_text("# hello\n")
    assert main(["--format", "json", "compose.yml", "README.md"]) == 1
    told = json.loads(capsys.readouterr().out)
    (finding,) = told.pop("findings")
    assert told == {"problems": [], "files_looked_at": 1, "files_not_known": 1}
    assert (finding["have"], finding["need"]) == ("9 s", "at least 60 s")


def test_github_shows_a_finding_at_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "compose.yml").write_text(WRONG)
    assert main(["--format", "github", "."]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("::error file=compose.yml,line=4,title=grace-gateway::a: ")


def test_what_cannot_be_read_is_one_sentence_and_the_rest_is_looked_at(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "nginx.conf").write_text("server {\n  listen 80;\n")
    (folder / "chart.yaml").write_text("apiVersion: v1\nkind: Pod\n{{- if .a }}\nx: {}\n{{- end }}")
    (folder / "compose.yml").write_text(WRONG)
    assert main(["."]) == 2
    printed = capsys.readouterr()
    template = (
        "chart.yaml:4:1: is not valid YAML: could not find expected ':'; it is a template: render "
        "it first, `helm template CHART | vllm-gateway doctor -`"
    )
    broken = 'nginx.conf:2: is not nginx\'s configuration: unexpected end of file, expecting "}"'
    assert printed.err.splitlines() == [template, broken]
    assert "compose.yml:4: error" in printed.out


def test_what_is_not_known_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "README.md").write_text("# hello\n")
    assert main(["README.md"]) == 2
    assert capsys.readouterr().err.startswith("README.md: is not looked at: doctor knows Kub")
    (folder / "empty").mkdir()
    assert main(["empty"]) == 2
    assert capsys.readouterr().err.startswith("empty: holds nothing that doctor knows: Kub")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (WRONG, "-:4: error"),
        ("upstream vllm { server a; }\nserver { location / { proxy_pass http://vllm; } }", "-:2: "),
        ("listen vllm\n server a h:1\n", "-:1: "),
    ],
)
def test_standard_input_is_known_by_what_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, first: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    main(["-"])
    assert capsys.readouterr().out.startswith(first)


@pytest.mark.parametrize("argv", [[], ["--format", "xml", "a"]])
def test_a_bad_command_line_is_status_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(argv)
    assert left.value.code == 2


WORDS = """
services image command entrypoint stop_grace_period stop_signal apiVersion kind metadata name
namespace labels annotations spec template containers lifecycle preStop exec sleep seconds httpGet
path livenessProbe readinessProbe terminationGracePeriodSeconds replicas strategy type rollingUpdate
maxUnavailable minAvailable selector matchLabels matchExpressions operator key values
scaleTargetRef minReplicas ingressClassName defaultBackend service data gateway window margin
keep_alive backends
"""
KEYS = st.sampled_from(
    [*WORDS.split(), "alb.ingress.kubernetes.io/load-balancer-attributes",
     "nginx.ingress.kubernetes.io/proxy-read-timeout", "worker-shutdown-timeout"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(
    ["vllm-gateway", "vllm/vllm-openai", "vllm serve --shutdown-timeout 3", "sh -c 'a; vllm serve'",
     "Deployment", "PodDisruptionBudget", "Service", "Ingress", "ConfigMap", "50%", "10s",
     "/-/ready", "LoadBalancer", "nginx", "alb", "idle_timeout.timeout_seconds={}",
     "HorizontalPodAutoscaler"]
)  # fmt: skip
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6)
)
POD = {"name": "a", "image": "vllm-gateway"}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(KEYS, TREES, max_size=6), max_size=3), TREES, TREES)
def test_any_tree_is_looked_at(things: list[dict[str, object]], one: object, two: object) -> None:
    pod = {"containers": [{**POD, "lifecycle": one, "livenessProbe": two}, one]}
    spec = {"replicas": 2, "strategy": one, "template": {"metadata": two, "spec": pod}}
    made = [
        {"kind": "Deployment", "metadata": one, "spec": spec},
        {"kind": "PodDisruptionBudget", "spec": one},
        {"kind": "Service", "metadata": two, "spec": one},
    ]
    tree = {"items": [{"apiVersion": "v1", "kind": "A", **each} for each in [*made, *things]]}
    files = {
        "a.json": json.dumps({"apiVersion": "v1", "kind": "List", **tree}),
        "compose.json": json.dumps({"services": {"a": {**POD, "command": one}, "b": two}}),
        "fleet.json": json.dumps({"backends": one, "gateway": {"window": two}}),
    }
    for finding in judged_files(files):
        assert finding.line == 1


LINES = st.lists(
    st.text()
    | st.sampled_from(
        ["[Service]", "ExecStart=vllm serve", "TimeoutStopSec=1x", "KillMode=", "\\", "[Container]",
         "server {", "location /v1 {", "}", "proxy_pass http://vllm;", "proxy_read_timeout 5;", "'",
         "include *;", "upstream a {", "global", "backend vllm", "defaults from a", "listen",
         " server a h:1 check fall x", " timeout server", " option", " retry-on", "services:",
         "http-check send uri", "  a: {image: vllm}", "gateway: {window: 1s}", "---",
         "apiVersion: v1"]
    )
)  # fmt: skip
NAMES = st.sampled_from(
    [
        "a.yml",
        "a.json",
        "a.service",
        "a.container",
        "vllm.service.d/a.conf",
        "nginx.conf",
        "a.cfg",
        "x",
    ]
)


@settings(max_examples=250, deadline=None)
@given(NAMES, LINES)
def test_any_text_is_looked_at_or_one_sentence(name: str, lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        found = [finding.line for finding in judged_files({name: text})]
    except YamlError as error:
        found = [] if error.line is None else [error.line]
    except UnreadableError:
        found = []
    assert all(1 <= line <= text.count("\n") + 2 for line in found)
