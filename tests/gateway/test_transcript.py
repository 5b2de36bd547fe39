"""What was given of an answer is given again from any event on, to the byte."""

import random
import re
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gateway.run import Run
from gateway.snapshot import NotAPlaceError
from gateway.transcript import LONG_RUN, PACKED_AT, SHORT_RUN, Transcript

REQUEST = "req-1"
COMMENT = b": still here\n\n"


def event(number: int, data: str) -> bytes:
    return f"id: {REQUEST}.{number}\ndata: {data}\n\n".encode()


def told(texts: list[str], first: int = 1) -> list[bytes]:
    return [event(number, text) for number, text in enumerate(texts, first)]


def behind(given: bytes, number: int) -> bytes:
    """What comes behind an event, found as a client finds it."""
    return re.sub(rb"(?s)^.*?id: req-1\.%d\n[^\n]*\n\n" % number, b"", given, count=1)


# Data that looks like the beginning of another event, as far as it can: it has no line ends.
TEXTS = some.lists(
    some.one_of(
        some.text("ab{}水", max_size=9),
        some.integers(1, 40).map(lambda n: f"id: {REQUEST}.{n}"),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(TEXTS, some.integers(0, 5), some.randoms(use_true_random=False))
def test_from_every_event_on_all_of_it_is_given_again(
    texts: list[str], before: int, chance: random.Random
) -> None:
    transcript = Transcript(REQUEST, before)
    events = iter(told(texts, before + 1))
    all_given, number = b"", before
    while piece := list(islice(events, chance.randint(1, 4))):
        number += len(piece)
        comments = COMMENT * chance.randint(0, 1)
        all_given += b"".join((comments, *piece))
        transcript.add(b"".join((comments, *piece)), number)
        if chance.random() < 0.3:
            transcript.pack()
    transcript.pack()
    assert transcript.last == before + len(texts)
    assert b"".join(transcript.after(before)) == all_given
    for last in range(before + 1, number + 1):
        rest = b"".join(transcript.after(last))
        expected = behind(all_given, last)
        # A comment in front of the first event is nothing that a client needs.
        assert rest in (expected, expected.removeprefix(COMMENT)), last
    for none in (number + 1, before - 1):
        with pytest.raises(NotAPlaceError) as raised:
            transcript.after(none)
        assert raised.value.known == (none < number)


def test_little_is_not_packed_while_more_may_come() -> None:
    transcript = Transcript(REQUEST, 0)
    events = told(["a"] * PACKED_AT)
    for number, one in enumerate(events, 1):
        assert (transcript.last, transcript.size) == (0, 0)
        transcript.add(one, number)
    assert transcript.last == PACKED_AT
    assert b"".join(transcript.after(PACKED_AT - 1)) == events[-1]


def test_of_a_very_long_answer_there_is_the_end() -> None:
    chance = random.Random(1)
    transcript = Transcript(REQUEST, 0, most_bytes=4000)
    events = told([chance.randbytes(40).hex() for _ in range(200)])
    for number, one in enumerate(events, 1):
        transcript.add(one, number)
        if number % 10 == 0:
            transcript.pack()
        assert transcript.size <= 4000
    with pytest.raises(NotAPlaceError) as raised:
        transcript.after(0)
    assert raised.value.known
    places = []
    for last in range(200):
        try:
            rest = b"".join(transcript.after(last))
        except NotAPlaceError:
            continue
        places.append(last)
        assert rest == b"".join(events[last:])
    assert len(places) > 50
    assert places == list(range(places[0], 200))


def test_what_is_too_large_alone_is_not_there() -> None:
    transcript = Transcript(REQUEST, 0, most_bytes=10)
    transcript.add(event(1, "x"), 1)
    transcript.pack()
    assert transcript.size == 0
    assert list(transcript.after(1)) == []
    with pytest.raises(NotAPlaceError, match="too long ago"):
        transcript.after(0)


def test_events_of_one_token_are_small() -> None:
    transcript = Transcript(REQUEST, 0)
    frame = '{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"%s"}}]}'
    events = told([frame % chr(97 + number % 26) for number in range(640)])
    for number, one in enumerate(events, 1):
        transcript.add(one, number)
    assert transcript.size * 10 < sum(map(len, events))


def run(first: int, texts: list[str], ids: list[int] | None = None) -> Run:
    """A run of events as ``told`` makes them, or with token ids."""
    return Run(
        id=b"id: req-1.%d\n",
        first=first,
        last=first + len(texts) - 1,
        head=b"data: ",
        texts="".join(f'{text}"' for text in texts).encode(),
        tail=b"\n\n" if ids is None else b"[",
        ids=ids,
        tail_behind_ids=b"" if ids is None else b"]\n\n",
    )


@pytest.mark.parametrize("size", [1, SHORT_RUN, SHORT_RUN + 1, 200])
def test_a_run_is_given_again_from_every_event_on(size: int) -> None:
    texts = [chr(97 + number % 26) * (number % 3) for number in range(size)]
    all_given = told(["a", *texts, "b", *texts])
    transcript = Transcript(REQUEST, 0)
    transcript.add(all_given[0], 1)
    transcript.add_run(run(2, texts))
    transcript.add(all_given[size + 1], size + 2)
    transcript.add_run(run(size + 3, texts))
    transcript.pack()
    assert transcript.last == len(all_given)
    for last in range(len(all_given) + 1):
        assert b"".join(transcript.after(last)) == b"".join(all_given[last:])


def test_a_run_has_its_token_ids() -> None:
    one = run(5, ["a", "", "c"], [1000, 2, 30])
    assert one.after(5) == b"id: req-1.6\ndata: [2]\n\nid: req-1.7\ndata: c[30]\n\n"


def test_a_long_run_takes_little_more_than_its_texts() -> None:
    transcript = Transcript(REQUEST, 0, most_bytes=3000)
    transcript.add(event(1, "a"), 1)
    transcript.add_run(run(2, ["word"] * 500))
    assert transcript.size < 2800
    transcript.add_run(run(502, ["word"] * 100))
    assert transcript.size < 1000
    assert b"".join(transcript.after(600)) == event(601, "word")
    with pytest.raises(NotAPlaceError):
        transcript.after(500)


@pytest.mark.parametrize("ids", [False, True])
def test_of_a_very_long_run_there_is_the_end(ids: bool) -> None:
    texts = [f"a{number}" for number in range(3 * LONG_RUN)]
    long = run(2, texts, [*range(3 * LONG_RUN)] if ids else None)
    whole = Transcript(REQUEST, 0)
    whole.add(event(1, "x"), 1)
    whole.add_run(long)
    for last in (1, 2, LONG_RUN, LONG_RUN + 1, LONG_RUN + 2, 3 * LONG_RUN, 3 * LONG_RUN + 1):
        assert b"".join(whole.after(last)) == long.after(last)
    end = Transcript(REQUEST, 0, most_bytes=long.size * 2 // 3)
    end.add_run(long)
    assert end.size <= long.size * 2 // 3
    assert b"".join(end.after(2 * LONG_RUN + 1)) == long.after(2 * LONG_RUN + 1)
    with pytest.raises(NotAPlaceError):
        end.after(2)
