from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.splice import Mode, Splice
from tests.gateway.playing import REQUEST, TOKEN, after, answer, chat, event, shutdown

WHOLE = answer(["Ein ", "größer", "es 🤝", " Wort"])
COMMENT = b": still here\n\n"


def mode(splice: Splice) -> Mode:
    """Asked by a function, since a type checker takes an attribute to stay as it was."""
    return splice.mode


def in_pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@given(
    cut=st.integers(0, len(WHOLE)),
    again_from=st.integers(0, 5),
    pieces=st.lists(st.integers(0, len(WHOLE)), max_size=5),
)
def test_whatever_is_cut_and_sent_again_comes_once(
    cut: int, again_from: int, pieces: Sequence[int]
) -> None:
    splice = Splice()
    given = b"".join(splice.feed(piece) for piece in in_pieces(WHOLE[:cut], pieces))
    if mode(splice) is Mode.COMPLETE:
        assert given == WHOLE
        return
    if splice.request is None:
        assert given == b""
        return
    splice.begin()
    start = min(again_from, splice.number)
    given += b"".join(splice.feed(piece) for piece in in_pieces(after(WHOLE, start), pieces))
    assert given == WHOLE
    assert mode(splice) is Mode.COMPLETE


def test_a_shutdown_frame_is_kept_from_the_caller_and_tells_how_to_go_on() -> None:
    splice = Splice()
    first = event(1, chat("a"))
    assert splice.feed(first + shutdown(2) + event(3, chat("never"))) == first
    assert mode(splice) is Mode.SHUT_DOWN
    assert splice.headers() == {"last-event-id": f"{REQUEST}.2", "x-resume-token": TOKEN}
    splice.begin()
    assert splice.feed(event(3, chat("b")) + event(4, "[DONE]")).startswith(event(3, chat("b")))
    assert mode(splice) is Mode.COMPLETE
    assert splice.headers() == {"last-event-id": f"{REQUEST}.4"}


def test_a_shutdown_frame_without_a_token_is_the_end_and_is_shown() -> None:
    splice = Splice()
    both = event(1, chat("a")) + shutdown(2, token=None)
    assert splice.feed(both) == both
    assert not splice.can_go_on


def test_an_answer_that_speaks_of_a_shutdown_is_none() -> None:
    splice = Splice()
    told = event(1, '{"choices": [{"delta": {"content": "\\"type\\": \\"shutdown\\""}}]}')
    told += event(2, '{"type": "x", "note": "shutdown", "resumeToken": "t"}')
    assert splice.feed(told) == told
    assert mode(splice) is Mode.RUNNING


def test_a_shutdown_frame_alone_is_no_progress() -> None:
    splice = Splice()
    splice.feed(event(1, chat("a")))
    assert splice.moved
    splice.begin()
    splice.feed(shutdown(2))
    assert not splice.moved


def test_an_error_is_the_end_and_is_shown() -> None:
    splice = Splice()
    both = event(1, chat("a")) + event(2, '{"error": {"message": "no"}}')
    assert splice.feed(both + event(3, "[DONE]")) == both
    assert mode(splice) is Mode.COMPLETE


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        pytest.param(event(3, chat("c")), "event 3 came after event 1", id="a gap"),
        pytest.param(event(2, chat("b"), "req-2"), "another request came: 'req-2'", id="another"),
        pytest.param(b"data: {}\n\n", "an event without a number came", id="no number"),
        pytest.param(b"id: 2\ndata: {}\n\n", "an event without a number came", id="another form"),
    ],
)
def test_what_does_not_go_on_with_the_stream_is_not_given_out(sent: bytes, why: str) -> None:
    splice = Splice()
    splice.feed(event(1, chat("a")))
    splice.begin()
    assert splice.feed(COMMENT + sent + event(2, chat("b"))) == COMMENT
    assert mode(splice) is Mode.BROKEN
    assert why in splice.why
    assert splice.can_go_on
    splice.begin()
    assert splice.feed(event(2, chat("b"))) == event(2, chat("b"))


@given(pieces=st.lists(st.integers(0, 200), max_size=5), cut=st.integers(0, 200))
def test_a_server_that_numbers_nothing_is_passed_on_byte_by_byte(
    pieces: Sequence[int], cut: int
) -> None:
    foreign = b"\xef\xbb\xbf: hello\r\n\r\ndata: {}\r\n\r\nid: x\rdata: [DONE]\r\rdata: more"[:cut]
    splice = Splice()
    given = b"".join(splice.feed(piece) for piece in in_pieces(foreign, pieces))
    assert given + splice.rest() == foreign
    assert not splice.can_go_on


def test_comments_come_through_once_it_is_known_whose_they_are() -> None:
    splice = Splice()
    assert splice.feed(COMMENT) == b""
    assert splice.feed(event(1, chat("a"))) == event(1, chat("a"))
    assert splice.feed(COMMENT) == COMMENT
    assert splice.rest() == b""
