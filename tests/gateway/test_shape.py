"""The fast path gives what the slow one gives, or nothing."""

import pytest

from gateway import edit
from gateway.shape import Shape

HEAD = b'data: {"id":"a","object":"o","created":1,"model":"m"'


def frame(  # noqa: PLR0913 (what may differ)
    text: bytes,
    ids: bytes = b"5",
    total: int = 10,
    completion: int = 1,
    *,
    more: bytes = b"",
    reason: bytes = b"null",
) -> bytes:
    return (
        b'%s,"choices":[{"index":0,"delta":{"content":"%s"%s},"logprobs":null,"finish_reason":%s,'
        b'"token_ids":[%s]}],"usage":{"prompt_tokens":9,"total_tokens":%d,"completion_tokens":%d}}'
        % (HEAD, text, more, reason, ids, total, completion)
    )


def bare(raw: bytes) -> bytes:
    return edit.without_usage(edit.without_ids(raw))


def shape(view: bytes | None = None) -> Shape:
    first = frame(b"first")
    found = Shape.learned(first, bare(first) if view is None else view)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text", [b"", b"a", b'\\"', b"\\\\", b"100%d", "水".encode(), b'\\"},\\"logprobs\\":null']
)
@pytest.mark.parametrize("ids", [b"7", b"7,8,9"])
def test_a_frame_of_the_shape_is_given_as_if_it_had_been_decoded(text: bytes, ids: bytes) -> None:
    number = ids.count(b",") + 1
    raw = frame(text, ids, 13 + number, 4 + number)
    found = shape().read(raw, 4)
    assert found is not None
    assert found[2] == [int(one) for one in ids.split(b",")]
    assert b"".join(shape().client(found[0], found[1])) == bare(raw)
    with_ids = shape(edit.without_usage(frame(b"first")))
    assert b"".join(with_ids.client(found[0], found[1])) == edit.without_usage(raw)


@pytest.mark.parametrize(
    "other",
    [
        frame(b"a", reason=b'"stop"'),
        frame(b"a", more=b',"reasoning":"b"'),
        frame(b"a", ids=b""),
        frame(b"a", total=11),
        frame(b"a", completion=2),
        frame(b"a").replace(b'"id":"a"', b'"id":"b"'),
        frame(b"a").replace(b'"logprobs":null', b'"logprobs":{}'),
        frame(b"a")[:-1] + b',"more":1}',
        frame(b"a")[:-2],
        b"data: [DONE]",
    ],
)
def test_what_differs_anywhere_else_is_another_shape(other: bytes) -> None:
    assert shape().read(frame(b"a"), 0) is not None
    assert shape().read(other, 0) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"data: [DONE]",
        edit.without_usage(frame(b"a")),
        edit.without_ids(frame(b"a")),
        frame(b"a", ids=b""),
    ],
)
def test_no_shape_is_learned_from_a_frame_without_text_ids_and_counts(raw: bytes) -> None:
    assert Shape.learned(raw, raw) is None
