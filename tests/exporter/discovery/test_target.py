"""Names and URLs of backends that were found, and one fleet out of all of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.discovery.merge import merged
from exporter.discovery.target import Target, backend_of, name_of
from fleet.backend import Backend, Kind
from fleet.discovery import Files, Source
from fleet.value import NAME
from tests.exporter.fleets import backend_at

SOURCE = Source(
    name="targets",
    lookup=Files((Path("/t.json"),)),
    refresh=5.0,
    scheme="http",
    kind=Kind.VLLM,
    wait=60.0,
    load_time=600.0,
    warm_up=180.0,
    api_key_file=Path("/key"),
)
OTHER = replace(SOURCE, name="dns")
LONG = "vllm-0.vllm-headless.a-namespace-of-some-length.svc.cluster.local"

NAMES = {
    "an address": ("10.0.0.11", 8000, "10.0.0.11_8000"),
    "a host": ("gpu-a", 8000, "gpu-a_8000"),
    "no port": ("gpu-a", None, "gpu-a"),
    "IPv6": ("2001:db8::1", 8000, "2001-db8--1_8000"),
    "IPv6 that begins with nothing": ("::1", 8000, "0--1_8000"),
    "a host that begins with _": ("_gpu", 1, "0_gpu_1"),
    "a name too long": (LONG, 8000, f"{LONG[:54]}-58de8ca8"),
}


@pytest.mark.parametrize(("host", "port", "name"), NAMES.values(), ids=NAMES)
def test_the_name_is_made_of_the_address(host: str, port: int | None, name: str) -> None:
    assert name_of(host, port) == name


@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}", fullmatch=True), st.integers(1, 65535))
def test_every_address_has_a_valid_name(host: str, port: int) -> None:
    assert NAME.fullmatch(name_of(host, port))


def test_two_long_names_with_one_beginning_are_told_apart() -> None:
    assert name_of(LONG, 8000) != name_of(LONG, 8001)


def test_the_source_says_what_the_target_does_not() -> None:
    assert backend_of(Target("::1", 8000), SOURCE) == Backend(
        name="0--1_8000",
        url="http://[::1]:8000",
        kind=Kind.VLLM,
        wait=60.0,
        load_time=600.0,
        warm_up=180.0,
        api_key_file=Path("/key"),
    )
    own = Target("gpu-a", name="a", scheme="https", kind=Kind.PROXY, wait=90.0)
    assert backend_of(own, SOURCE) == Backend(
        name="a",
        url="https://gpu-a",
        kind=Kind.PROXY,
        wait=90.0,
        load_time=600.0,
        warm_up=180.0,
        api_key_file=Path("/key"),
    )


def test_the_listed_come_first_and_then_each_source_in_order() -> None:
    listed = [backend_at("http://h:1")]
    fleet = merged(
        listed, [(SOURCE, [Target("b", 1), Target("a", 1)]), (OTHER, [Target("c", 1)])], interval=15
    )
    assert [b.name for b in fleet.backends] == ["gpu-a", "b_1", "a_1", "c_1"]
    assert (fleet.found, fleet.warnings) == ((2, 1), ())


def test_who_is_first_with_a_name_stays() -> None:
    listed = [backend_at("http://h:1", name="x")]
    found = [
        (SOURCE, [Target("a", 1, name="x"), Target("a", 1, name="y")]),
        (OTHER, [Target("b", 1, name="y")]),
    ]
    fleet = merged(listed, found, interval=15)
    assert [(b.name, b.url) for b in fleet.backends] == [("x", "http://h:1"), ("y", "http://a:1")]
    assert fleet.found == (1, 0)
    assert fleet.warnings == (
        "targets: x at http://a:1 is left out: x of backends has the same name",
        "dns: y at http://b:1 is left out: y of targets has the same name",
    )


def test_who_is_first_at_a_url_stays() -> None:
    fleet = merged([backend_at("http://h:1")], [(SOURCE, [Target("h", 1)])], interval=15)
    assert [b.name for b in fleet.backends] == ["gpu-a"]
    assert fleet.warnings == (
        "targets: h_1 at http://h:1 is left out: gpu-a of backends has the same URL",
    )


def test_listed_ones_may_share_a_url_as_they_always_could() -> None:
    listed = [backend_at("http://h"), backend_at("http://h", name="gpu-b")]
    assert merged(listed, [], interval=15).backends == tuple(listed)


def test_a_wait_of_its_own_that_is_too_short_is_raised() -> None:
    fleet = merged([], [(SOURCE, [Target("a", 1, wait=20.0)])], interval=15)
    assert [b.wait for b in fleet.backends] == [30.0]
    assert fleet.warnings == (
        "targets: a_1: a wait of 20s is shorter than two poll intervals; 30s is used",
    )
