"""Which model a request is written down for."""

from dataclasses import replace

import pytest

from gateway.choose import billed_as
from tests.gateway.fakes import office


@pytest.mark.parametrize(
    ("named", "served", "expected"),
    [
        pytest.param("a", [{"a"}, {"b"}], "a", id="the one it names"),
        pytest.param("a", [{"b"}], "a", id="the one it names, served or not"),
        pytest.param("", [{"a"}, {"a"}], "a", id="else the only one"),
        pytest.param("", [{"a"}, None], "a", id="of those that have told"),
        pytest.param("", [{"a"}, {"b"}], "", id="not one of several"),
        pytest.param("", [{"a", "b"}], "", id="not one of several at one backend"),
        pytest.param("", [None], "", id="nobody has told"),
    ],
)
def test_the_model_on_the_bill(named: str, served: list[set[str] | None], expected: str) -> None:
    (standing,) = office("gpu-a").standings
    standings = [
        replace(standing, models=None if models is None else frozenset(models)) for models in served
    ]
    assert billed_as(standings, named) == expected
