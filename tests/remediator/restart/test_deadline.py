"""A restart's end of time, and errors in one sentence."""

import threading
import time

import pytest

from remediator.restart import Outcome
from remediator.restart.deadline import SLACK_SECONDS, Deadline, bounded
from remediator.restart.sentence import MOST_CHARACTERS, one_line, sentence

DONE = Outcome(ok=True, why="done")


def test_what_is_done_in_time_is_the_outcome() -> None:
    assert bounded(10.0, lambda _: DONE) is DONE


def test_what_is_raised_is_an_outcome() -> None:
    def act(_: Deadline) -> Outcome:
        raise ZeroDivisionError

    outcome = bounded(10.0, act)
    assert not outcome.ok
    assert outcome.why == "it failed: ZeroDivisionError"


def test_what_never_ends_is_left_behind_and_has_no_time_to_act() -> None:
    go_on, refused = threading.Event(), threading.Event()

    def act(deadline: Deadline) -> Outcome:
        go_on.wait()
        with pytest.raises(TimeoutError):
            deadline.left()
        refused.set()
        return DONE

    began = time.monotonic()
    outcome = bounded(0.5, act)
    assert time.monotonic() - began >= 0.5 + SLACK_SECONDS
    assert not outcome.ok
    assert outcome.why == "it did not end within 0.5 s, and may go on"
    go_on.set()
    assert refused.wait(60.0)


def test_less_is_left_later() -> None:
    deadline = Deadline(60.0)
    first = deadline.left()
    assert deadline.left() <= first <= 60


def wrapped(error: OSError) -> Exception:
    """An error as two libraries, one on the other, hand it on."""
    try:
        try:
            raise error
        except OSError as inner:
            raise RuntimeError(f"[inner({inner!r})]") from inner
    except RuntimeError as outer:
        outer.__suppress_context__ = False
        return outer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (wrapped(PermissionError(13, "Permission denied")), "Permission denied"),
        (ValueError("two\n  lines"), "two lines"),
        (ValueError(), "ValueError"),
        (OSError("without a number"), "without a number"),
    ],
)
def test_an_error_is_one_sentence(error: Exception, words: str) -> None:
    assert sentence(error) == words


def test_a_long_text_is_cut() -> None:
    assert len(one_line("x " * 1000)) == MOST_CHARACTERS
