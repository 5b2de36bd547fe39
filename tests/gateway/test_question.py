from collections.abc import Mapping

import pytest

from gateway.ask import AskError, Route
from gateway.question import Question, prefers_later

BODY = '{"model": "m",\n "messages": [{"role": "user", "content": "größer"}]}\n'.encode()
QUESTION = Question("req-1", "alice", "key\n1", Route.CHAT, BODY, forbidden=True, created=7)


def test_a_question_is_kept_as_it_was_asked() -> None:
    again = Question.from_bytes(QUESTION.to_bytes(), "req-1", "alice")
    assert again == QUESTION
    assert again.ask.forbidden
    assert again.ask.model == "m"


def test_a_question_that_is_none_is_told() -> None:
    wrong = Question("req-1", "alice", "k", Route.CHAT, b"{", forbidden=False, created=7)
    with pytest.raises(AskError):
        assert wrong.ask


@pytest.mark.parametrize(
    ("headers", "later"),
    [
        pytest.param({}, False, id="no preference"),
        pytest.param({"prefer": "respond-async"}, True, id="it alone"),
        pytest.param({"prefer": "wait=5, Respond-Async ; x=y"}, True, id="among others"),
        pytest.param({"prefer": "return=minimal, wait=5"}, False, id="others"),
        pytest.param({"prefer": "respond-async-not"}, False, id="a longer word"),
    ],
)
def test_who_prefers_to_follow_the_answer_later(headers: Mapping[str, str], *, later: bool) -> None:
    assert prefers_later(headers) is later
