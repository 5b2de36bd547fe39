"""docs/lint.md says what the code does."""

import re
from pathlib import Path

import pytest

from remediator.lint.__main__ import main
from remediator.lint.rule import RULES, Rule
from remediator.lint.source import CRON_FOLDERS, CRON_SUFFIXES, UNIT_SUFFIXES, YAML_SUFFIXES

DOCS = (Path(__file__).parents[3] / "docs" / "lint.md").read_text()
FIXTURES = Path(__file__).parent / "fixtures"


def test_every_rule_is_documented_with_its_severity_and_no_other_is() -> None:
    table = DOCS.split("## Rules\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \|", table, re.MULTILINE)
    assert rows == [(str(rule), str(RULES[rule].severity)) for rule in Rule]


def test_the_example_is_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = re.search(
        r"\$ vllm-remediator lint example\n(.*?)\$ echo \$\?\n(\d)\n", DOCS, re.DOTALL
    )
    assert example is not None
    monkeypatch.chdir(FIXTURES)
    assert main(["example"]) == int(example[2])
    assert capsys.readouterr().out == example[1]


def test_every_kind_of_file_is_documented() -> None:
    table = DOCS.split("## What it reads\n")[1].split("\n## ")[0]
    for name in YAML_SUFFIXES | UNIT_SUFFIXES | CRON_SUFFIXES | CRON_FOLDERS:
        assert f"{name}`" in table, name
