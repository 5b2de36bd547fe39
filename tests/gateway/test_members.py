"""Members of a JSON object that comes in pieces: the same as of the whole, in bounded memory."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.members import LONGEST, Long, Members, Path
from tests.gateway.memory import peak

WANTED: tuple[Path, ...] = (("usage",), ("response", "usage"), ("delta",))

NAMES = st.sampled_from(["usage", "response", "delta", "a", 'q"\\', ""])
PLAIN = st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('ab\\"{}[]:, é'))
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4)
)


def found(pieces: list[bytes]) -> dict[Path, object]:
    members = Members(WANTED)
    for piece in pieces:
        members.feed(piece)
    return members.found


def expected(value: object) -> dict[Path, object]:
    wanted = {}
    for path in WANTED:
        inner = value
        for name in path:
            inner = inner.get(name, Long) if isinstance(inner, dict) else Long
        if inner is not Long:
            wanted[path] = inner
    return wanted


@given(
    value=VALUES,
    places=st.lists(st.integers(0, 200)),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_what_is_found_is_what_the_whole_says_wherever_it_is_cut(
    value: object, places: list[int], indent: int | None, *, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    cuts = [0, *sorted(place for place in places if place < len(text)), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(cuts)]
    assert found(pieces) == expected(value)


@given(text=st.binary() | st.text(st.sampled_from('{}[]:,"\\u1 ')).map(str.encode))
def test_nothing_is_raised_at_whatever_comes(text: bytes) -> None:
    found([text])
    found([text[i : i + 1] for i in range(len(text))])


@pytest.mark.parametrize(
    "text",
    [
        b'{"delta": "{\\"usage\\": 1}"}',
        b'{"tools": [{"usage": {"type": "string"}}]}',
        b'{"response": [{"usage": 1}]}',
        b'{"a": {"response": {"usage": 1}}}',
        b'[{"usage": 1}]',
        b'"usage"',
        b"[DONE]",
        b"",
    ],
)
def test_what_only_looks_like_it_is_not_taken_for_it(text: bytes) -> None:
    assert not {("usage",), ("response", "usage")} & found([text]).keys()


def test_a_long_value_is_known_by_its_being_there() -> None:
    pieces = [b'{"delta": "', b"x" * LONGEST, b'", "usage": 7}']
    assert found(pieces) == {("delta",): Long.VALUE, ("usage",): 7}


def test_memory_does_not_grow_with_what_comes() -> None:
    members = Members(WANTED)
    with peak() as most:
        members.feed(b'{"delta": "')
        for _ in range(200):
            members.feed(b"x\\" * 32768)
        members.feed(b'\\", "data": [')
        for _ in range(200):
            members.feed(b"[0.25, 0.5], " * 5000)
        members.feed(b'0], "usage": {"prompt_tokens": 3}}')
    assert members.found[("usage",)] == {"prompt_tokens": 3}
    assert most() < 1024 * 1024
