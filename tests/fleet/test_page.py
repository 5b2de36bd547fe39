"""Wanted lines are found among many, and a bad line costs itself only."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fleet.page import LONGEST_LINE, Samples, samples, wanted_lines

WANTED = wanted_lines(["vllm:a", "vllm:a_total", "vllm:b"], ["start_time"])


def found(text: str) -> list[tuple[str, float]]:
    return [(sample.name, sample.value) for sample in samples(text, WANTED).samples]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("vllm:a 1", "vllm:a"),
        ("vllm:a_total 1", "vllm:a_total"),
        ('vllm:a{engine="0"} 1', "vllm:a"),
        ('vllm:a {engine="0"} 1', "vllm:a"),
        ("vllm:a\t1", "vllm:a"),
        ("ray_vllm:a 1", "vllm:a"),
        ("my_ray_vllm:a 1", "vllm:a"),
        ("start_time 1", "start_time"),
        ("vllm:a 1 1700000000000", "vllm:a"),
        ('vllm:a 1 # {trace_id="x"} 0.5 1700000000.0', "vllm:a"),
        ("vllm:a 1\r", "vllm:a"),
    ],
)
def test_a_wanted_line_is_found(line: str, name: str) -> None:
    page = f"# HELP vllm:a what\n# TYPE vllm:a gauge\nother 5\n{line}\nvllm:c 6\n"
    assert found(page) == [(name, 1.0)]


@pytest.mark.parametrize(
    "line",
    [
        "vllm:a_created 1",
        "vllm:aa 1",
        "vllm:ab 1",
        "_vllm:c 1",
        "-vllm:a 1",
        "# vllm:a 1",
        "istio_agent_start_time 1",
        "xvllm:a 1",
        "vllm:A 1",
        "",
        "vllm:a",
    ],
)
def test_no_other_line_is_taken_for_a_wanted_one(line: str) -> None:
    assert samples(line + "\n", WANTED) == Samples((), frozenset())


@pytest.mark.parametrize(
    "line",
    [
        "vllm:a ",
        "vllm:a x",
        "vllm:a 1_000",
        "vllm:a 1 x",
        "vllm:a{",
        'vllm:a{engine="0',
        'vllm:a{engine="0"',
        'vllm:a{engine="0"}',
        "vllm:a{engine=0} 1",
        'vllm:a{engine="0",engine="1"} 1',
        'vllm:a{e="0", ="1"} 1',
        'vllm:a{e="0",,f="1"} 1',
        "vllm:a " + "1" * 400,
        "vllm:a 1 " + "1" * 400,
        "vllm:a \x00\ufffd\ufffd\x01",
        "vllm:a{\ufffd} 1",
        'vllm:a{x="' + "y" * LONGEST_LINE + '"} 1',
    ],
)
def test_a_malformed_line_costs_itself_only(line: str) -> None:
    for page in (f"{line}\nvllm:b 2\n", f"vllm:b 2\n{line}\n", f"vllm:b 2\n{line}"):
        read = samples(page, WANTED)
        assert read.malformed == {"vllm:a"}
        assert [(sample.name, sample.value) for sample in read.samples] == [("vllm:b", 2.0)]


def test_values_are_floats_however_they_are_written() -> None:
    for text, value in (("7", 7.0), ("7.5", 7.5), ("7e3", 7000.0), ("+Inf", float("inf"))):
        (sample,) = samples(f"vllm:a {text}\n", WANTED).samples
        assert type(sample.value) is float
        assert sample.value == value


def test_labels_are_read_as_they_were_meant() -> None:
    line = r'vllm:a{model_name="a\"b\\c\nd{e}, f=\"g\" 5",engine="0"} 1'
    (sample,) = samples(line, WANTED).samples
    assert sample.labels == {"model_name": 'a"b\\c\nd{e}, f="g" 5', "engine": "0"}


def test_lines_of_a_page_with_carriage_returns_are_read() -> None:
    page = 'vllm:a{engine="0"} 1\r\nvllm:b{engine="0"} 2\r\n'
    assert found(page) == [("vllm:a", 1.0), ("vllm:b", 2.0)]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("x" * 4_000_000, id="one line of letters"),
        pytest.param("x_" * 2_000_000, id="one line of possible prefixes"),
        pytest.param("vllm:a{" + 'x="y",' * 600_000 + "} 1\n", id="one line of labels"),
        pytest.param("vllm:a{x=" + '\\"' * 1_900_000 + "} 1\n", id="one line of escapes"),
        pytest.param("\n" * 4_000_000, id="empty lines"),
    ],
)
def test_a_huge_page_is_read_in_a_moment(page: str) -> None:
    began = time.process_time()
    assert samples(page, WANTED).samples == ()
    assert time.process_time() - began < 3.0


def test_without_exact_names_any_prefix_goes() -> None:
    assert samples("a_b 1\nb 2", wanted_lines(["b"])).samples[0].name == "b"
    assert samples("a_b 1", wanted_lines([], ["b"])).samples == ()


LABELS = st.sampled_from(
    ['engine="0"', 'engine="1",model_name="m"', 'a="#"', 'a="{"', 'a="\\""', ""]
)
NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**12), 10**12).map(str),
    st.sampled_from(
        ["NaN", "+Inf", "1_0", "0x1", "1e5", "+1", ".5", "5.", "\u0661", "1e400", "1" * 60]
    ),
)
BEHIND = st.sampled_from(
    ["", "", "", " ", " 1700000000000", ' # {t="x"} 0.5', ' # {t="x"} 0.5 1.0', "x"]
)
BLANKS = st.sampled_from(["", " ", "\t", "  "])


@given(labels=LABELS, number=NUMBERS, behind=BEHIND, before=BLANKS, after=BLANKS)
@settings(max_examples=500)
def test_what_is_remembered_of_a_line_changes_nothing_that_the_official_parser_says(
    labels: str, number: str, behind: str, before: str, after: str
) -> None:
    line = f"vllm:a{before}{{{labels}}}{after}{number}{behind}"
    try:
        families = list(text_string_to_metric_families(f"{line}\n"))
        official = [
            sample._replace(value=float(sample.value))
            for family in families
            for sample in family.samples
        ]
    except (ValueError, LookupError, ArithmeticError):
        official = []
    read = samples(f"{line}\n", WANTED)
    assert repr(read.samples) == repr(tuple(official))
    assert (read.malformed == frozenset()) is bool(official)
