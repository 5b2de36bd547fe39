"""What an expression mentions."""

import pytest

from grafana.promql import Selector, grouping_labels, selectors


def s(metric: str, *labels: str) -> Selector:
    return Selector(metric, frozenset(labels))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        pytest.param("up", (s("up"),), id="a bare metric"),
        pytest.param(
            'a{x="1", y=~"b{2}", z!="by (q)"}', (s("a", "x", "y", "z"),), id="braces in a string"
        ),
        pytest.param("rate(a_total[5m] offset 1h)", (s("a_total"),), id="a range and an offset"),
        pytest.param(
            "a:b:max >= on (backend) group_left () (2 * c:d:max)",
            (s("a:b:max"), s("c:d:max")),
            id="recorded series and matching",
        ),
        pytest.param(
            "sum by (le) (a) / on (x) group_left (y) b unless c or vector(0)",
            (s("a"), s("b"), s("c")),
            id="words are no metrics",
        ),
        pytest.param("time() - a > 1e3", (s("a"),), id="a number with an exponent"),
        pytest.param("vector(1)", (), id="no metric at all"),
        pytest.param("a{} == 1", (s("a"),), id="empty braces"),
        pytest.param("a  # not b\nor c", (s("a"), s("c")), id="a comment"),
    ],
)
def test_the_metrics_of_an_expression(expr: str, expected: tuple[Selector, ...]) -> None:
    assert selectors(expr) == expected


def test_the_labels_an_expression_groups_and_matches_by() -> None:
    expr = 'sum by (a, b) (x{c="by (d)"}) / on (e) group_left (f) y'
    assert grouping_labels(expr) == {"a", "b", "e", "f"}
