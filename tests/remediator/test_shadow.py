"""What is said of the restarts that were not made: counts, times, and whether to make them."""

from datetime import timedelta

import pytest

from fleet.settings import Mode
from remediator.incident import Attempt, AttemptState, ShadowOutcome
from remediator.shadow import Patience, Report, in_words, report
from tests.remediator import making
from tests.remediator.making import T0

PATIENCE = {"gpu-a": Patience(90.0, 15.0), "gpu-b": Patience(60.0, 15.0)}
CAME, RESTARTED, STAYED, NOT_SEEN = (
    ShadowOutcome.CAME_BACK,
    ShadowOutcome.RESTARTED,
    ShadowOutcome.STAYED_STUCK,
    ShadowOutcome.NOT_SEEN,
)


def ended(outcome: ShadowOutcome, after: float, backend: str = "gpu-a") -> Attempt:
    """One that came to this outcome so many seconds after it was planned."""
    return making.attempt(
        AttemptState.STILL_STUCK if outcome in (STAYED, NOT_SEEN) else AttemptState.RECOVERED,
        mode=Mode.SHADOW,
        backend=backend,
        planned_at=T0,
        acting_at=None,
        starting_at=T0 + timedelta(seconds=7),
        ended_at=T0 + timedelta(seconds=after),
        shadow_outcome=outcome,
    )


def under_way() -> Attempt:
    return making.attempt(
        AttemptState.STARTING, mode=Mode.SHADOW, planned_at=T0, starting_at=T0, acting_at=None
    )


def told(*attempts: Attempt, mode: Mode = Mode.SHADOW) -> Report:
    return report(mode, attempts, PATIENCE)


TOO_FEW = "Too little to tell: {}, and 3 are needed. Leave the mode as it is."
YES = (
    "This supports switching to act: nothing would have been restarted for nothing. "
    "In fleet.yml, under remediator, set mode: act"
)
NO = (
    "This does not support the mode act. Change fleet.yml as said, then look again at what comes "
    "after that (--since)."
)
REPORTS: dict[str, tuple[list[Attempt], bool | None, str | None, list[str]]] = {
    "nothing": ([], None, None, [TOO_FEW.format("0 cases")]),
    "two cases": (
        [ended(STAYED, 86400), ended(STAYED, 86400)],
        None,
        None,
        [
            "In none of 2 cases the server came back by itself.",
            (
                "2 stayed stuck for as long as it was watched, 1 d or more; "
                "lifeguard would have acted within 7 s."
            ),
            TOO_FEW.format("2 cases"),
        ],
    ),
    "what was not seen or is watched is no case": (
        [ended(NOT_SEEN, 86400), under_way(), ended(STAYED, 86400)],
        None,
        None,
        [
            "In none of 1 case the server came back by itself.",
            (
                "1 stayed stuck for as long as it was watched, 1 d or more; "
                "lifeguard would have acted within 7 s."
            ),
            TOO_FEW.format("1 case"),
        ],
    ),
    "all stuck or restarted": (
        [ended(STAYED, 86400), ended(RESTARTED, 1800), ended(RESTARTED, 5400, "gpu-b")],
        True,
        "mode: act",
        [
            "In none of 3 cases the server came back by itself.",
            (
                "2 were restarted by somebody else, after a median of 1 h more; "
                "lifeguard would have acted within 7 s."
            ),
            (
                "1 stayed stuck for as long as it was watched, 1 d or more; "
                "lifeguard would have acted within 7 s."
            ),
            YES,
        ],
    ),
    "two came back": (
        [ended(CAME, 12), ended(CAME, 65), ended(RESTARTED, 1800, "gpu-b")],
        False,
        "wait: 2m20s  # gpu-a",
        [
            (
                "In 2 of 3 cases the server came back by itself, soonest after 12 s, at the "
                "median after 39 s, at the latest after 1 min; a restart would have been for "
                "nothing there."
            ),
            "Raise wait of gpu-a above 1m30s: 2m20s or more.",
            (
                "1 was restarted by somebody else, after a median of 30 min more; "
                "lifeguard would have acted within 7 s."
            ),
            NO,
        ],
    ),
    "of two backends": (
        [ended(CAME, 12), ended(CAME, 25, "gpu-b"), ended(CAME, 12)],
        False,
        "wait: 1m50s  # gpu-a\nwait: 1m30s  # gpu-b",
        [
            (
                "In 3 of 3 cases the server came back by itself, soonest after 12 s, at the median "
                "after 12 s, at the latest after 25 s; a restart would have been for nothing there."
            ),
            "Raise wait of gpu-a above 1m30s: 1m50s or more.",
            "Raise wait of gpu-b above 1m: 1m30s or more.",
            NO,
        ],
    ),
    "of one that is gone": (
        [ended(CAME, 12, "gpu-z")] * 3,
        False,
        None,
        [
            (
                "In 3 of 3 cases the server came back by itself, soonest after 12 s, at the median "
                "after 12 s, at the latest after 12 s; a restart would have been for nothing there."
            ),
            "gpu-z is not in fleet.yml any more.",
            (
                "This does not support the mode act. Find out why, then look again at what comes "
                "after that (--since)."
            ),
        ],
    ),
}


@pytest.mark.parametrize(
    ("attempts", "supports", "change", "sentences"), REPORTS.values(), ids=list(REPORTS)
)
def test_the_report(
    attempts: list[Attempt], supports: bool | None, change: str | None, sentences: list[str]
) -> None:
    found = told(*attempts)
    assert found["sentences"] == sentences
    assert (found["supports_act"], found["change"]) == (supports, change)


@pytest.mark.parametrize(("after", "wait"), [(0, 100), (4.9, 100), (5, 110), (25, 120), (24, 110)])
def test_two_of_the_recommended_waits_are_longer_than_the_silence(after: float, wait: int) -> None:
    silence = 2 * 90 + 15 + after
    assert 2 * wait > silence >= 2 * (wait - 10)
    change = told(*[ended(CAME, after)] * 3)["change"]
    assert change == f"wait: {wait // 60}m{f'{wait % 60}s' if wait % 60 else ''}  # gpu-a"


def test_counts_are_by_outcome_and_by_backend() -> None:
    interrupted = making.attempt(AttemptState.INTERRUPTED, mode=Mode.SHADOW)
    found = told(
        ended(CAME, 12),
        ended(NOT_SEEN, 86400, "gpu-b"),
        ended(STAYED, 86400),
        under_way(),
        interrupted,
    )
    assert found["outcomes"] == {CAME: 1, RESTARTED: 0, STAYED: 1, NOT_SEEN: 1}
    assert (found["cases"], found["watched"], found["interrupted"]) == (2, 1, 1)
    assert found["came_back_after"] == {"shortest": 12.0, "median": 12.0, "longest": 12.0}
    a, b = found["backends"]
    assert (a["backend"], a["cases"], a["came_back"], a["stayed_stuck"], a["watched"]) == (
        *("gpu-a", 2, 1, 1, 1),
    )
    assert (b["backend"], b["cases"], b["not_seen"]) == ("gpu-b", 0, 1)


def test_where_the_mode_is_act_already_nothing_is_to_be_changed() -> None:
    found = told(*[ended(STAYED, 86400)] * 3, mode=Mode.ACT)
    assert (found["supports_act"], found["change"]) == (True, None)


def test_without_a_time_of_acting_none_is_promised() -> None:
    bare = [
        making.attempt(
            AttemptState.RECOVERED, mode=Mode.SHADOW, ended_at=T0, shadow_outcome=RESTARTED
        )
    ]
    assert "lifeguard" not in " ".join(told(*bare)["sentences"])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (59, "59 s"),
        (59.5, "60 s"),
        (60, "1 min"),
        (3599, "60 min"),
        (3600, "1 h"),
        (86399, "23 h 59 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
