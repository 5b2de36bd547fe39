"""The shapes of a graph, and the words for those who do not see it."""

import re
from collections.abc import Sequence

import pytest

from exporter.rates import Seen
from exporter.sparkline import BASE, TOP, WIDTH, number, sparkline
from exporter.view import LookRow

SPAN = 236.0  # One unit of the graph is one second.


def looks(*seen: tuple[Seen, float | None], every: float = 10.0) -> list[LookRow]:
    return [
        {"age_seconds": every * (len(seen) - 1 - i), "step_rate": rate, "seen": what}
        for i, (what, rate) in enumerate(seen)
    ]


def steps(*rates: float) -> list[tuple[Seen, float | None]]:
    return [(Seen.STEPS, rate) for rate in rates]


GAP = (Seen.FAILED, None)
RESTART = (Seen.RESTARTED, None)
MOVED = (Seen.MOVED, 0.0)
SILENT = (Seen.SILENT, 0.0)


def test_a_line_goes_from_zero_at_the_base_to_the_highest_at_the_top() -> None:
    assert sparkline(looks(*steps(0.0, 5.0, 10.0)), SPAN).line == (
        f"M218 {BASE}L228 {(BASE + TOP) / 2:g}L238 {TOP}"
    )


@pytest.mark.parametrize("gap", [GAP, RESTART, (Seen.FIRST, None)], ids=lambda gap: gap[0])
def test_no_line_is_drawn_across_a_look_without_a_rate(gap: tuple[Seen, None]) -> None:
    line = sparkline(looks(*steps(1.0, 2.0), gap, *steps(2.0, 1.0)), SPAN).line
    assert [part.count("L") for part in line.split("M")[1:]] == [1, 1]


def test_a_single_rate_between_two_gaps_is_a_dot() -> None:
    assert sparkline(looks(GAP, *steps(1.0), GAP), SPAN).line == f"M228 {TOP}h0"


def test_a_level_line_needs_its_ends_only() -> None:
    assert sparkline(looks(*[SILENT] * 20), SPAN).line == f"M48 {BASE}L238 {BASE}"


def test_each_kind_of_look_has_a_mark_of_its_own_shape() -> None:
    shapes = sparkline(looks(*steps(1.0), MOVED, MOVED, SILENT, SILENT, GAP, RESTART), SPAN)
    assert re.findall(r"M(\d+) \d+h0", shapes.moved) == ["188", "198"]
    assert re.findall(r"M(\d+) \d+H(\d+)", shapes.silent) == [("198", "208"), ("208", "218")]
    assert re.findall(r"M(\d+) ", shapes.failed) == ["226"]
    assert re.findall(r"M(\d+) ", shapes.restarted) == ["238"]


def test_looks_before_the_span_are_left_out() -> None:
    assert sparkline(
        looks(*steps(9.0, 1.0, 2.0)), 10.0
    ).line == f"M2 {(BASE + BASE - 27) / 2:g}" + (f"L{WIDTH - 2} {TOP}")


WORDS: dict[str, tuple[Sequence[tuple[Seen, float | None]], str]] = {
    "nothing": ([], "Steps per second: no look yet."),
    "steps": (steps(4.0, 3.5), "Steps per second: 3.5 now, between 3.5 and 4; in 2 looks."),
    "prefill": (
        [*steps(4.0), MOVED, MOVED],
        (
            "Steps per second: 0 now, between 0 and 4; "
            "of 3 looks 2 without a step in which something moved."
        ),
    ),
    "silence, a restart and a failed read": (
        [SILENT, RESTART, GAP],
        (
            "Steps per second: no reading now, between 0 and 0; "
            "of 3 looks 1 silent with work pending, 1 failed, 1 at a new process."
        ),
    ),
}


@pytest.mark.parametrize("case", WORDS.values(), ids=WORDS)
def test_the_graph_in_words(case: tuple[Sequence[tuple[Seen, float | None]], str]) -> None:
    seen, words = case
    assert sparkline(looks(*seen), SPAN).words == words


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.0, "0"), (0.0333, "0.033"), (3.5, "3.5"), (53.27, "53.3"), (812.4, "812")],
)
def test_a_rate_has_the_digits_that_matter(rate: float, text: str) -> None:
    assert number(rate) == text
