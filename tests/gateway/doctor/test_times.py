"""fleet.yml's times."""

from dataclasses import asdict, fields
from pathlib import Path

import pytest

from fleet.placed_yaml import documents
from fleet.schema import GatewaySection
from fleet.settings import parse
from gateway.doctor.times import Times, Told, is_fleet
from tests.gateway.doctor.judging import judged, rules


def told(text: str) -> Told:
    return Told.of("fleet.yml", documents(text)[0])


def test_what_is_not_said_is_the_gateways_default() -> None:
    assert told("backends: []").times == Times()
    assert Times().sum == "window 60 s (propagation 5 s + drain 45 s + margin 10 s)"


def test_the_defaults_are_those_that_the_gateway_reads() -> None:
    text = "backends: [{name: a, url: 'http://a'}]\ngateway: {admin_token_file: t}"
    read = parse(text, Path("fleet.yml")).gateway
    assert {each.name: getattr(read, each.name) for each in fields(Times)} == asdict(Times())
    assert all(each.default is _in_schema(each.name) for each in fields(Times))


def _in_schema(name: str) -> object:
    return GatewaySection.model_fields[name].default


def test_a_time_is_read_with_its_line() -> None:
    read = told("gateway:\n  keep_alive: 1m30s\n  window: 2m\n")
    assert (read.times.keep_alive, read.times.window) == (90.0, 120.0)
    assert read.lines == {"keep_alive": 2, "window": 3}


@pytest.mark.parametrize("value", ["soon", "60", "-1s", "{}", "[a]", "''", "0s"])
def test_what_is_no_duration_is_a_finding_and_the_default_stays(value: str) -> None:
    read = told(f"gateway: {{window: {value}}}")
    assert read.times == Times()
    assert list(read.wrong) == ["window"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("backends: []", True),
        ("gateway: {window: 60s}", True),
        ("gateway: {image: a}", False),
        ("services: {a: {}}\ngateway: {window: 1s}", False),
        ("apiVersion: v1\nkind: A\nbackends: []", False),
        ("a: b", False),
    ],
)
def test_a_fleet_yml_is_known_by_its_sections(text: str, *, known: bool) -> None:
    assert is_fleet(documents(text)[0]) == known


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("gateway:\n  window: 15s\n", 2),
        ("gateway:\n  propagation: 50s\n", 2),
        ("gateway:\n  keep_alive: 5s\n  margin: 2m\n", 3),
    ],
)
def test_a_window_without_a_drain_is_found_where_it_is_made(text: str, line: int) -> None:
    (finding,) = judged(fleet_yml=text)
    assert (str(finding.rule), finding.line) == ("fleet-window", line)


def test_all_other_files_are_compared_with_it() -> None:
    unit = "[Service]\nExecStart=vllm-gateway\nTimeoutStopSec=80\n"
    assert rules(gateway_service=unit) == []
    assert rules(gateway_service=unit, fleet_yml="gateway: {window: 80s}") == []
    assert rules(gateway_service=unit, fleet_yml="gateway: {window: 81s}") == ["grace-gateway"]
