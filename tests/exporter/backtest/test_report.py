"""What is said of a backtest: the suggestion, the limits, the tables."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from exporter.backtest.episode import End, Episode, Healed
from exporter.backtest.limits import limits
from exporter.backtest.report import Report, TargetReport, suggested_wait
from exporter.backtest.tables import duration, show
from exporter.backtest.target import Target
from exporter.backtest.watched import Watched
from fleet.judgement import WAITS_OF_PROOF

AT = 1_760_000_400.0
HANG = Episode("0", AT - 180, AT, 180.0, "stuck", End.CAME_BACK, AT + 75)
LONG = "vllm/model-server-deployment-7d9f8b6c5-x2x4z.inference.svc.cluster.local:8000"
SEEN = Watched(engines=frozenset("0"), engine_seconds=3600.0, identified=True, measured=True)
UNIDENTIFIED, UNMEASURED = replace(SEEN, identified=False), replace(SEEN, measured=False)


def target(name: str = "vllm/a:1", interval: float = 15.0, watched: Watched = SEEN) -> TargetReport:
    return TargetReport(Target((("instance", name),)), name, watched, interval)


def report(*targets: TargetReport, wait: float = 90.0) -> Report:
    return Report("http://p:9090", int(AT) - 86400, int(AT), wait, targets)


@pytest.mark.parametrize(
    ("seconds", "interval", "wait"),
    [
        (10.0, 15.0, 30.0),
        (165.0, 15.0, 110.0),
        (60.0, 60.0, 75.0),
        (235.0, 15.0, 150.0),
    ],
    ids=["never less than the exporter takes", "rounded up", "coarse", "not rounded"],
)
def test_a_wait_is_suggested(seconds: float, interval: float, wait: float) -> None:
    assert suggested_wait(Healed(seconds, interval, AT, "0")) == wait
    assert WAITS_OF_PROOF * wait > seconds + interval


def test_the_healed_silence_that_asks_most_decides() -> None:
    fine = target("fine", watched=replace(SEEN, longest=Healed(170.0, 15.0, AT, "0")))
    coarse = target("coarse", 60.0, replace(SEEN, longest=Healed(150.0, 60.0, AT, "0")))
    both = report(fine, coarse, target("silent"))
    assert both.longest is not None
    assert both.longest[0].name == "coarse"
    assert both.suggested_wait == coarse.suggested_wait == 130.0


@pytest.mark.parametrize(
    ("interval", "wait", "sentence"),
    [
        (15.0, 90.0, "silences are known to ±15 s, and a wait of 90 s holds 6 looks: vllm/a:1."),
        (60.0, 90.0, "a wait of 90 s holds one look only, too few to see short silences at all"),
        (120.0, 90.0, "a wait of 90 s holds no look at all, too few"),
        (60.0, 120.0, "a wait of 120 s holds 2 looks: vllm/a:1."),
    ],
)
def test_what_an_interval_cannot_show(interval: float, wait: float, sentence: str) -> None:
    assert sentence in " ".join(limits(report(target(interval=interval), wait=wait)))


def test_what_a_page_does_not_have_is_said() -> None:
    said = limits(
        report(target("a", watched=UNIDENTIFIED), target("b", watched=UNMEASURED), target("c"))
    )
    assert any(
        one.startswith("No process_start_time_seconds") and one.endswith(": a.") for one in said
    )
    assert any(one.startswith("No KV usage") and one.endswith(": b.") for one in said)


def test_of_many_targets_three_are_named() -> None:
    many = report(*(target(f"t{i}", watched=UNMEASURED) for i in range(5)))
    assert any(one.endswith("proven: t0, t1, t2 and 2 more.") for one in limits(many))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (599.0, "599 s"), (600.0, "10 min"), (7199.0, "120 min"), (9000.0, "2.5 h")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def shown(what: Report, *, terminal: bool = False) -> list[str]:
    text = io.StringIO()
    show(what, Console(file=text, width=80, color_system=None, force_terminal=terminal))
    return text.getvalue().splitlines()


ENDS = tuple(
    replace(HANG, end=end, how="start time changed from 1759914000 to 1760088000") for end in End
)


def test_on_a_terminal_80_columns_are_enough() -> None:
    """However long the names are."""
    watched = replace(SEEN, episodes=ENDS, longest=Healed(255.0, 15.0, AT, "0"))
    what = report(target(LONG, watched=watched))
    lines = shown(what, terminal=True)
    assert max(map(len, lines)) <= 80
    # Folded, but nothing of it is left out.
    words = " ".join(lines).split()
    assert (words.count("75"), words.count("1760088000")) == (len(End), 1)
    assert "…" not in "".join(words)


def test_in_a_pipe_a_row_is_a_line() -> None:
    lines = shown(report(target(LONG, watched=replace(SEEN, episodes=ENDS))))
    rows = [line for line in lines if line.startswith("2025-10-09T09:00:00Z")]
    assert [row.split(None, 5)[5].rstrip() for row in rows] == [
        "came back by itself 75 s after the proof",
        "restarted 75 s after the proof: start time changed from 1759914000 to 1760088000",
        "still hung at the end, 75 s after the proof",
        "its series end, 75 s after the proof",
    ]


@pytest.mark.parametrize(
    ("longest", "last"),
    [
        (None, "No silence with work pending healed by itself: these series suggest no wait."),
        (Healed(100.0, 15.0, AT, "0"), "The 90 s looked with are enough."),
        (
            Healed(255.0, 15.0, AT, "0"),
            "If that was a hang to be ended, or a pause, it says nothing about the wait.",
        ),
    ],
    ids=["none healed", "the wait covers it", "it does not"],
)
def test_the_suggestion_is_explained(longest: Healed | None, last: str) -> None:
    lines = shown(report(target(watched=replace(SEEN, longest=longest))))
    summary = lines[: lines.index("What these series cannot show:") - 1]
    assert summary[-1] == last
    if longest is not None:
        how = f"(1.2 x ({longest.seconds:.0f} s + 15 s) / 2)."
        assert summary[-2].endswith(how)
