"""What a frame proves about the place behind it."""

from hypothesis import given, settings
from hypothesis import strategies as some

from gateway.cut import Cut
from tests.gateway.model import Decoder, Vocabulary

PIECES = (b"\xe6\xb0", b"\xb4a", b"\xf0\x9f", b"\x8f\x8a", b"ok", "水".encode(), b"\x80")


def test_a_token_that_ends_what_others_began_is_not_known_as_whole() -> None:
    cut = Cut(set())
    cut.hold(b"", [1])  # the first bytes of a character
    cut.text([2])  # its last byte
    cut.release()
    assert cut.clean
    assert cut.whole == set()
    cut.text([5, 2])
    assert not cut.clean
    cut.text([7])
    assert cut.clean
    assert cut.whole == set(), "the state in front of it was in doubt"
    cut.text([8])
    assert cut.whole == {8}
    cut.text([1, 8])
    assert cut.clean


@settings(max_examples=400)
@given(
    some.lists(
        some.lists(
            some.lists(
                some.integers(3, 3 + 255 + len(PIECES)) | some.integers(259, 258 + len(PIECES)),
                min_size=1,
                max_size=3,
            ),
            max_size=8,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_called_clean_ends_with_a_whole_character(answers: list[list[list[int]]]) -> None:
    vocabulary = Vocabulary(PIECES)
    whole: set[int] = set()
    for frames in answers:
        cut = Cut(whole)
        decoder = Decoder(vocabulary, [])
        given_out: list[int] = []
        shown = ""
        for ids in frames:
            text = "".join(map(decoder.step, ids))
            if not text:
                cut.hold(b"", ids)
                continue
            cut.text(ids)
            given_out += [token for _, held in cut.release() for token in held] + ids
            shown += text
            if cut.clean:
                assert vocabulary.decode(given_out) == shown
