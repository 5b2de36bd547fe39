"""YAML with places: the lines are right, and nothing it says takes long or breaks it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.placed_yaml import MOST_LEVELS, MOST_VALUES, Placed, documents
from fleet.strict_yaml import YamlError

TEXT = """\
# a comment
services:
  one:
    image: a
    ports:
      - "80:80"
      - target: 8000
---
kind: Second
"""


def only(text: str) -> Placed:
    (document,) = documents(text)
    return document


def test_a_value_has_the_line_of_its_key_and_an_item_its_own() -> None:
    first, second = documents(TEXT)
    ports = first.get("services", "one", "ports")
    assert ports is not None
    assert (ports.line, [item.line for item in ports.items]) == (5, [6, 7])
    assert first.get("services") == first.entries["services"]
    assert first.entries["services"].line == 2
    assert (second.entries["kind"].line, second.word("kind")) == (9, "Second")


def test_what_is_not_there_is_nothing() -> None:
    document = only("a: {b: c, d: [e]}")
    assert document.get("a", "x", "y") is None
    assert document.word("a") == ""
    assert document.get("a", "b", "c") is None
    assert (document.text, document.items, document.entries["a"].items) == ("", (), ())


def test_scalars_stay_as_they_are_written() -> None:
    document = only("a: no\nb: 010\nc: 2020-01-01\nd:\ne: 'x'\n")
    assert [each.text for each in document.entries.values()] == ["no", "010", "2020-01-01", "", "x"]


@pytest.mark.parametrize("merge", ["<<: *base", "<<: [*base, *other]"])
def test_a_merge_brings_in_values_with_their_own_lines_and_is_overwritten(merge: str) -> None:
    text = f"base: &base\n  a: 1\n  b: 2\nother: &other\n  b: 3\nit:\n  {merge}\n  a: 4\n"
    it = only(text).entries["it"]
    assert (it.word("a"), it.entries["a"].line) == ("4", 8)
    assert (it.word("b"), it.entries["b"].line) == ("2", 3)


def test_keys_that_are_no_text_are_left_out() -> None:
    assert list(only("? [a, b]\n: c\nd: e\n").entries) == ["d"]


def test_a_walk_meets_every_value_once() -> None:
    assert [each.text for each in only("a: [b, {c: d}]").walk()] == ["", "", "b", "", "d"]


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "sentence", "line"),
    [
        (bomb(), f"has more than {MOST_VALUES} values, with its aliases followed", None),
        ("a: &a [*a]", f"is nested more than {MOST_LEVELS} levels deep", 1),
        ("[" * 80 + "]" * 80, f"is nested more than {MOST_LEVELS} levels deep", 1),
        ("[" * 5000, "is not valid YAML: it is nested too deeply", None),
        ("a: 1\na: 2\n", "is not valid YAML: the key 'a' stands there twice", 2),
        ("a: *b", "is not valid YAML: found undefined alias 'b'", 1),
        (
            "- x\n" * (MOST_VALUES + 1),
            f"is not valid YAML: there are more than {MOST_VALUES} values",
            None,
        ),
    ],
    ids=["bomb", "in itself", "levels", "many levels", "key twice", "no anchor", "long"],
)
def test_what_is_too_much_or_wrong_is_one_sentence(
    text: str, sentence: str, line: int | None
) -> None:
    with pytest.raises(YamlError) as caught:
        documents(text)
    assert str(caught.value) == sentence
    assert line is None or caught.value.line == line


@settings(deadline=None)
@given(st.text())
def test_any_text_is_documents_or_one_sentence(text: str) -> None:
    try:
        sentence = str(len(documents(text)))
    except YamlError as error:
        sentence = str(error)
    assert "\n" not in sentence
