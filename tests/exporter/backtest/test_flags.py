"""The command line of the backtest, and what it says of mistakes."""

import re
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.backtest.flags import options, parser

NOW = 1_760_000_400.75
URL = "http://prometheus:9090"
NO_TIME = "is not a time such as 2026-11-30T09:00:00Z or 1796029200"
NO_PASSWORD = "has a user or password in it; put the key into a file"
DOCUMENTED = (Path(__file__).parents[3] / "docs" / "backtest.md").read_text()


def test_the_defaults_are_two_weeks_until_now_and_the_exporters_wait() -> None:
    asked = options(["--prometheus", f"{URL}/"], now=lambda: NOW)
    assert (asked.prometheus, asked.until, asked.until - asked.since) == (
        URL,
        1_760_000_400,
        1209600,
    )
    assert (asked.wait, asked.match, asked.token_file, asked.json) == (90.0, "", None, False)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("1759990000", 1_759_990_000),
        ("1759990000.9", 1_759_990_000),
        ("2025-10-09T06:06:40Z", 1_759_990_000),
        ("2025-10-09T08:06:40+02:00", 1_759_990_000),
        ("2035-01-01T00:00:00Z", 1_760_000_400),
    ],
    ids=["Unix", "a part of a second", "UTC", "another offset", "the future: now"],
)
def test_an_end_is_read(text: str, until: int) -> None:
    assert options(["--prometheus", URL, "--until", text], now=lambda: NOW).until == until


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{job="vllm"}', 'job="vllm"'),
        (' { job="vllm", } ', 'job="vllm"'),
        ("{}", ""),
    ],
    ids=["one", "with spaces and a comma", "none"],
)
def test_matchers_are_taken_from_their_braces(text: str, match: str) -> None:
    assert options(["--prometheus", URL, "--match", text]).match == match


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "the following arguments are required: --prometheus"),
        (
            ["--prometheus", "prometheus:9090"],
            "argument --prometheus: 'prometheus:9090' is not an http(s) URL",
        ),
        (
            ["--prometheus", "http://me:secret@prometheus:9090"],
            f"argument --prometheus: 'http://***@prometheus:9090' {NO_PASSWORD}",
        ),
        (
            ["--prometheus", URL, "--since", "14"],
            "argument --since: '14' is not a duration such as 90s, 1m30s or 2h",
        ),
        (
            ["--prometheus", URL, "--wait", "0s"],
            "argument --wait: '0s' is not longer than zero",
        ),
        (
            ["--prometheus", URL, "--until", "yesterday"],
            f"argument --until: 'yesterday' {NO_TIME}",
        ),
        (
            ["--prometheus", URL, "--until", "2026-11-30T09:00:00"],
            f"argument --until: '2026-11-30T09:00:00' {NO_TIME}",
        ),
        (
            ["--prometheus", URL, "--match", "vllm"],
            """argument --match: 'vllm' is not a selector such as '{job="vllm"}'""",
        ),
    ],
    ids=[
        "no Prometheus",
        "no URL",
        "a password in the URL",
        "a duration without a unit",
        "a wait of nothing",
        "no time",
        "a time without its offset",
        "no selector",
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["backtest", *argv])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"vllm-exporter backtest: error: {sentence}"


def test_every_flag_is_documented_and_no_other_is() -> None:
    flags = set(re.findall(r"--[a-z][a-z-]+", parser().format_usage()))
    assert set(re.findall(r"^\| `(--[a-z-]+)", DOCUMENTED, re.MULTILINE)) == flags


def test_the_exporters_help_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "backtest" in capsys.readouterr().out
