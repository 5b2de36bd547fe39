"""The bill against the backends' own counters."""

from dataclasses import replace

import pytest

from gateway.ledger.reconcile import Compared, Finding, Legs, Mark, as_table, compared, overall
from tests.gateway.ledger.making import T0

BEFORE = Mark("gpu-a", T0, "", T0 - 9, 1000, 5000, 20, 4, 2, 30, 100)
AFTER = replace(BEFORE, at=T0 + 60, prompt_tokens=1100, generation_tokens=6000, finished=30)
ALL = Legs(10, 100, 1000)


@pytest.mark.parametrize(
    ("before", "after", "legs", "finding", "loss"),
    [
        pytest.param(BEFORE, AFTER, ALL, Finding.COUNTED, 0.0, id="every token was counted"),
        pytest.param(
            BEFORE, AFTER, Legs(10, 100, 990), Finding.COUNTED, 1.0, id="some were not counted"
        ),
        pytest.param(
            BEFORE, AFTER, Legs(10, 100, 1005), Finding.COUNTED, 0.0, id="more than it generated"
        ),
        pytest.param(
            BEFORE,
            replace(AFTER, open_completion=150, open_legs=3),
            Legs(10, 100, 950),
            Finding.COUNTED,
            0.0,
            id="what is under way counts as far as it is",
        ),
        pytest.param(
            BEFORE, BEFORE, Legs(0, 0, 0), Finding.COUNTED, 0.0, id="nothing was generated"
        ),
        pytest.param(
            BEFORE,
            replace(AFTER, finished=33),
            Legs(10, 100, 500),
            Finding.OTHERS,
            None,
            id="others asked it, too",
        ),
        pytest.param(
            BEFORE,
            replace(AFTER, process_start=T0 + 5),
            ALL,
            Finding.RESTARTED,
            None,
            id="another process",
        ),
        pytest.param(
            BEFORE, replace(AFTER, generation_tokens=10), ALL, Finding.RESTARTED, None, id="it fell"
        ),
        pytest.param(
            BEFORE,
            replace(AFTER, prompt_tokens=10),
            ALL,
            Finding.RESTARTED,
            None,
            id="prompts fell",
        ),
        pytest.param(
            BEFORE,
            Mark("gpu-a", T0, "the connection was refused"),
            ALL,
            Finding.UNREADABLE,
            None,
            id="not readable now",
        ),
        pytest.param(
            Mark("gpu-a", T0), AFTER, ALL, Finding.UNREADABLE, None, id="not readable then"
        ),
        pytest.param(None, AFTER, ALL, Finding.NO_MARK, None, id="the first mark"),
    ],
)
def test_two_marks_tell(
    before: Mark | None, after: Mark, legs: Legs, finding: Finding, loss: float | None
) -> None:
    result = compared(before, after, legs)
    assert (result.finding, result.loss) == (finding, loss)
    assert result.why
    assert as_table([result]).row_count == 1


def test_the_loss_in_all_is_of_those_that_tell() -> None:
    good = Compared("a", Finding.COUNTED, "", 900, 900)
    bad = Compared("b", Finding.COUNTED, "", 100, 90)
    more = Compared("c", Finding.COUNTED, "", 0, 500)
    silent = Compared("d", Finding.OTHERS, "", 1000, 1)
    assert overall([good, bad, more, silent]) == 1.0
    assert overall([silent]) is None
