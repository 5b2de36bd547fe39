"""How what was counted becomes part of a record."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bill import End
from gateway.ledger.record import FREE, Booking, Record, State, booked, state_of, word
from tests.gateway.ledger.making import closed, opened

FIRST = Record(State.OPEN, None, 0, "", "run-1", "gateway-1")


def booking(
    state: State = State.OPEN, tokens: int = 0, run: str = "run-1", prompt: int | None = 7
) -> Booking:
    return Booking(opened(), run, prompt, tokens, state, "stop", 5.0)


@pytest.mark.parametrize(
    ("record", "one", "expected"),
    [
        pytest.param(FIRST, booking(), (State.OPEN, 7, 0, "gateway-1"), id="it goes on"),
        pytest.param(FIRST, booking(State.COMPLETE, 9), (State.COMPLETE, 7, 9, None), id="it ends"),
        pytest.param(
            FIRST, booking(State.FAILED), (State.FAILED, None, 0, None), id="what failed is free"
        ),
        pytest.param(
            replace(FIRST, state=State.PARTIAL, prompt_tokens=7, run="run-2"),
            booking(State.COMPLETE, 9, prompt=900),
            (State.COMPLETE, 7, 9, "gateway-1"),
            id="a prompt is charged once, and another run's holder keeps it",
        ),
        pytest.param(
            replace(FIRST, state=State.COMPLETE, prompt_tokens=7),
            booking(State.PARTIAL, 3),
            (State.COMPLETE, 7, 3, None),
            id="complete never goes back",
        ),
        pytest.param(
            replace(FIRST, run="run-2"),
            booking(State.FAILED),
            (State.OPEN, None, 0, "gateway-1"),
            id="an older run's failure says nothing about a newer one",
        ),
    ],
)
def test_a_booking_is_part_of_the_record(
    record: Record, one: Booking, expected: tuple[State, int | None, int, str | None]
) -> None:
    after = booked(record, 0, one)
    assert (after.state, after.prompt_tokens, after.completion_tokens, after.holder) == expected


@pytest.mark.parametrize(
    ("end", "delivered", "state"),
    [
        (End.COMPLETE, 0, State.COMPLETE),
        (End.REFUSED, 0, State.REFUSED),
        (End.FAILED, 0, State.FAILED),
        (End.FAILED, 1, State.PARTIAL),
        (End.REFUSED, 1, State.PARTIAL),
    ],
)
def test_what_was_delivered_is_never_free(end: End, delivered: int, state: State) -> None:
    assert state_of(closed(end), delivered) == state


bookings = st.lists(
    st.builds(
        booking,
        st.sampled_from([State.OPEN, State.PARTIAL, State.COMPLETE]),
        st.integers(0, 50),
        st.sampled_from(["run-1", "run-2"]),
    ),
    max_size=6,
)


def after_all(some: list[Booking]) -> Record:
    record, counted = FIRST, {"run-1": 0, "run-2": 0}
    for one in some:
        record = booked(record, counted[one.run], one)
        counted[one.run] = max(counted[one.run], one.completion_tokens)
    return record


@given(bookings, st.randoms(use_true_random=False))
def test_order_and_repetition_change_no_total(some: list[Booking], chance: object) -> None:
    again = some * 2
    chance.shuffle(again)  # type: ignore[attr-defined]
    first, second = after_all(some), after_all(again)
    assert first.completion_tokens == second.completion_tokens
    assert first.state == second.state
    assert first.completion_tokens == sum(
        max((one.completion_tokens for one in some if one.run == run), default=0)
        for run in ("run-1", "run-2")
    )


@pytest.mark.parametrize("odd", ["a" * 201, "\x00", "\ud800", "tab\t"])
def test_an_odd_word_is_kept_by_its_hash(odd: str) -> None:
    assert word(odd).startswith("sha256:")
    assert len(word(odd)) == 71
    assert word("plain") == "plain"
    assert word(odd) != word(odd + "x")


def test_free_is_what_was_not_delivered() -> None:
    assert set(FREE) == {State.REFUSED, State.FAILED}
