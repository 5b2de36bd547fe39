import pytest

from remediator.decision import Hold, Reason
from remediator.journal import Journal, Received, line
from tests.remediator.making import at, attempt, incident


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ('a "b"', '"a \\"b\\""'),
        ("a=b", '"a=b"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb", '"a\\u000ab"'),
        (at(0.5), "2026-03-01T12:00:00Z"),
        (7, "7"),
    ],
)
def test_a_value_is_one_word_or_quoted(value: object, shown: str) -> None:
    assert line(key=value) == f"key={shown}"


def test_what_is_not_there_is_left_out() -> None:
    assert line(a=1, b=None, c=2) == "a=1 c=2"


def test_a_decision_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    journal = Journal()
    held = Hold(Reason.COOLING_DOWN, at(900), "last restarted at noon")
    journal.decided(incident(), held)
    assert caplog.text.endswith(
        " decision=hold reason=cooling_down backend=gpu-a incident=1 "
        'until=2026-03-01T12:15:00Z why="last restarted at noon"\n'
    )
    journal.decided(incident(action=held.action, reason=held.reason), held)
    assert len(caplog.messages) == 1


def test_a_step_of_an_attempt_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    Journal().came_to(attempt())
    assert caplog.messages == ["attempt=7 state=recovered mode=act backend=gpu-a incident=99"]


def test_notifications_are_counted_and_refused_ones_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = Journal()
    journal.received(Received.ACCEPTED)
    journal.received(Received.MALFORMED, "alerts: 7 is not a list")
    assert journal.notifications() == {Received.ACCEPTED: 1, Received.MALFORMED: 1}
    assert caplog.messages == ['notification=malformed why="alerts: 7 is not a list"']
