"""docs/doctor.md says what the code does."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.doctor.__main__ import main
from gateway.doctor.rule import RULES, Rule
from gateway.doctor.source import (
    HAPROXY_SUFFIXES,
    NGINX_FOLDERS,
    NGINX_SUFFIXES,
    UNIT_SUFFIXES,
    YAML_SUFFIXES,
)
from gateway.doctor.times import Times

DOCS = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()
FIXTURES = Path(__file__).parent / "fixtures"


def section(title: str) -> str:
    return DOCS.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_rule_is_documented_with_its_severity_and_no_other_is() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \|", section("Rules"), re.MULTILINE)
    assert rows == [(str(rule), str(RULES[rule].severity)) for rule in Rule]


def test_the_example_is_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = r"\$ vllm-gateway doctor example\n(.*?)\$ echo \$\?\n(\d)\n"
    example = re.search(pattern, DOCS, re.DOTALL)
    assert example is not None
    monkeypatch.chdir(FIXTURES)
    assert main(["example"]) == int(example[2])
    assert capsys.readouterr().out == example[1]


def test_every_kind_of_file_is_documented() -> None:
    table = section("What it reads")
    suffixes = YAML_SUFFIXES | UNIT_SUFFIXES | NGINX_SUFFIXES | HAPROXY_SUFFIXES
    for name in suffixes | NGINX_FOLDERS:
        assert f"{name}`" in table, name


def test_every_time_is_documented_with_its_default() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (\d+) s \|", section("The times"), re.MULTILINE))
    assert table == {each.name: f"{each.default:g}" for each in fields(Times)}
