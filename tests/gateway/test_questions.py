"""Questions beside interrupted streams, on both kinds of database."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from gateway.ask import Route
from gateway.kept import Kept, Left, Taken, resumptions
from gateway.question import Question
from gateway.questions import Questions
from gateway.seal import NotGood, Seal, Why
from tests.gateway.databases import TestedDatabase

NOW = 1_700_000_000.0
GOOD_FOR = 600.0
MOST = 3
SEAL = Seal((b"k" * 32,), GOOD_FOR)
QUESTION = Question("req-1", "alice", "k", Route.CHAT, b'{"a": "secret"}', False, 7)  # noqa: FBT003


@pytest.fixture
def questions(shared: TestedDatabase) -> Questions:
    return Questions(shared, SEAL, GOOD_FOR, MOST)


@pytest.fixture
def kept(shared: TestedDatabase) -> Kept:
    return Kept(shared, SEAL)


def left(now: float = NOW) -> Left:
    return Left(SEAL.token("alice", now), "alice", "req-1", b"{}")


def test_a_question_is_there_for_its_caller_until_it_is_dropped(questions: Questions) -> None:
    questions.keep(QUESTION, NOW)
    for _ in range(2):
        assert questions.find("req-1", "alice", NOW + 1) == QUESTION
    assert questions.find("req-1", "bob", NOW) == NotGood(Why.NOT_KEPT)
    assert questions.find("req-2", "alice", NOW) == NotGood(Why.NOT_KEPT)
    questions.drop("req-1", "bob")
    assert questions.find("req-1", "alice", NOW) == QUESTION
    questions.drop("req-1", "alice")
    assert questions.find("req-1", "alice", NOW) == NotGood(Why.NOT_KEPT)


def test_of_two_of_one_name_the_later_one_counts(questions: Questions) -> None:
    questions.keep(QUESTION, NOW)
    other = replace(QUESTION, body=b"{}")
    questions.keep(other, NOW + 1)
    assert questions.find("req-1", "alice", NOW + 1) == other


def test_a_question_expires_and_is_forgotten(questions: Questions, kept: Kept) -> None:
    questions.keep(QUESTION, NOW)
    assert questions.find("req-1", "alice", NOW + GOOD_FOR - 1) == QUESTION
    assert questions.find("req-1", "alice", NOW + GOOD_FOR) == NotGood(Why.EXPIRED)
    assert kept.forget(NOW + GOOD_FOR) == 1
    assert questions.find("req-1", "alice", NOW + GOOD_FOR) == NotGood(Why.NOT_KEPT)


def test_a_question_is_no_interrupted_stream(questions: Questions, kept: Kept) -> None:
    questions.keep(QUESTION, NOW)
    assert kept.take_request("req-1", "alice", NOW) == NotGood(Why.NOT_KEPT)
    assert questions.find("req-1", "alice", NOW) == QUESTION


def test_once_its_stream_is_interrupted_the_question_is_gone(
    questions: Questions, kept: Kept
) -> None:
    questions.keep(QUESTION, NOW)
    kept.keep([left()], NOW)
    assert questions.find("req-1", "alice", NOW) == NotGood(Why.NOT_KEPT)
    assert isinstance(kept.take_request("req-1", "alice", NOW), Taken)
    questions.keep(QUESTION, NOW)
    assert questions.find("req-1", "alice", NOW) == QUESTION


def test_the_database_shows_nothing_of_a_question(
    questions: Questions, shared: TestedDatabase
) -> None:
    questions.keep(QUESTION, NOW)
    with shared.read() as connection:
        [row] = connection.execute(select(resumptions)).all()
    assert b"secret" not in bytes(row.sealed)
    stranger = Questions(shared, Seal((b"n" * 32,), GOOD_FOR), GOOD_FOR, MOST)
    assert stranger.find("req-1", "alice", NOW) == NotGood(Why.UNKNOWN_KEY)


def test_of_one_caller_there_are_never_more_than_may_be(questions: Questions, kept: Kept) -> None:
    def asks(number: int, caller: str = "alice", now: float = NOW) -> bool:
        name = f"req-{number}"
        return questions.keep(replace(QUESTION, request_id=name, caller=caller), now)

    kept.keep([Left(SEAL.token("alice", NOW), "alice", f"cut-{n}", b"{}") for n in range(5)], NOW)
    assert [asks(number) for number in range(1, 6)] == [True, True, True, False, False]
    assert questions.find("req-4", "alice", NOW) == NotGood(Why.NOT_KEPT)
    assert asks(2)  # in place of itself
    assert asks(1, "bob")
    questions.drop("req-1", "alice")
    assert [asks(4), asks(5)] == [True, False]
    kept.keep([Left(SEAL.token("alice", NOW), "alice", "req-2", b"{}")], NOW)  # it was followed
    assert [asks(5), asks(6)] == [True, False]
    assert asks(6, now=NOW + GOOD_FOR)  # the others have expired
