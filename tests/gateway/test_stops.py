"""Stop strings, against vLLM's own search over the whole text."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.stops import Hit, Stops

letters = some.text("ab", max_size=4)


def by_vllm(
    pieces: list[str], stops: list[str], *, include: bool, min_tokens: int
) -> list[str | Hit]:
    """vllm/v1/engine/detokenizer.py, 0.32.0, with one token for each piece."""
    behind = 0 if include else max(map(len, stops)) - 1
    out: list[str | Hit] = []
    text, given_out = "", 0
    for number, piece in enumerate(pieces, 1):
        text += piece
        ends = [
            (at + len(stop), order, stop, at)
            for order, stop in enumerate(stops)
            if piece
            and number > min_tokens
            and (at := text.find(stop, max(0, len(text) - len(piece) - len(stop) + 1))) >= 0
        ]
        if ends:
            end, _, stop, at = min(ends)
            return [*out, Hit(stop, text[given_out : end if include else at])]
        upto = max(given_out, len(text) - behind)
        out.append(text[given_out:upto])
        given_out = upto
    return out


@given(
    some.lists(letters, max_size=12),
    some.lists(some.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    some.booleans(),
    some.integers(0, 4),
)
def test_frames_have_the_text_that_vllm_gives_them(
    pieces: list[str], stops: list[str], include: bool, min_tokens: int
) -> None:
    search = Stops(stops, include=include, min_tokens=min_tokens)
    out: list[str | Hit] = []
    for number, piece in enumerate(pieces, 1):
        found = search.feed(piece, number)
        out.append(found)
        if isinstance(found, Hit):
            break
        again = Stops(stops, include=include, min_tokens=min_tokens)
        again.restore(search.snapshot())
        search = again
    assert out == by_vllm(pieces, stops, include=include, min_tokens=min_tokens)
    if not (out and isinstance(out[-1], Hit)):
        assert "".join(map(str, out)) + search.rest("") == "".join(pieces)


@pytest.mark.parametrize(("include", "text"), [(False, "a"), (True, "abc")])
def test_the_stop_string_itself_is_shown_when_asked_for(include: bool, text: str) -> None:
    assert Stops(["bc"], include=include).feed("abcd", 1) == Hit("bc", text)
