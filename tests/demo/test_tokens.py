"""Text, ids, and what follows."""

import pytest

from demo.vllm.tokens import BYTES, WORDS, decode, encode, fold, following, known


@pytest.mark.parametrize(
    "text", ["", "hello", " the sea", "naïve 海 \U0001f30a", "two\nlines", " the\tsea "]
)
def test_text_survives(text: str) -> None:
    assert decode(encode(text)) == text


def test_a_known_word_is_one_id() -> None:
    assert len(encode(" the sea")) == 2
    assert len(encode("xyz")) == 3


def test_words_are_distinct() -> None:
    assert len(set(WORDS)) == len(WORDS)


def test_half_a_character_is_shown_as_such() -> None:
    assert decode("海".encode()[:2]) == "\ufffd"


def test_the_vocabulary_ends() -> None:
    assert known(BYTES + len(WORDS) - 1)
    assert not known(BYTES + len(WORDS))
    assert not known(-1)


def test_what_follows_depends_on_all_ids_before() -> None:
    texts = [encode(f"{number}{'x' * 50}") for number in range(20)]
    assert len({following(fold(ids)) for ids in texts}) > 5


def test_a_digest_can_be_taken_further() -> None:
    ids = encode("the tide turns")
    assert fold(ids[3:], fold(ids[:3])) == fold(ids)
