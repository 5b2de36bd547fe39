"""What the series cannot show, in sentences; those about some targets name them."""

import math
from collections.abc import Iterator, Sequence

from exporter.backtest.report import Report, TargetReport

ALWAYS = (
    (
        "No short request was sent: an engine that froze while idle is not seen, and a hang that "
        "the remediator's own look would have denied is listed."
    ),
    (
        "Pauses are not kept (/is_paused): a server that is paused for a weight update looks hung, "
        "and its end looks like a silence that healed."
    ),
    (
        "Why a scrape failed is not kept: it counts as an absence, never as silence. Nor is "
        "/health: a dead engine shows as failed scrapes."
    ),
)
# Two looks in a wait are what the exporter itself asks of its settings.
LOOKS_IN_A_WAIT = 2
NAMED = 3


def limits(report: Report) -> list[str]:
    """The sentences, those that hold for every backtest first."""
    return [
        *ALWAYS,
        *_of_intervals(report),
        *_of_pages(report),
        *(f"Prometheus warned: {warning}" for warning in report.warnings),
    ]


def _of_intervals(report: Report) -> Iterator[str]:
    for interval in sorted({one.interval for one in report.targets}):
        who = _names([one for one in report.targets if one.interval == interval])
        looks = math.floor(report.wait / interval)
        holds = f"a wait of {report.wait:g} s holds {_count(looks)}"
        too_few = "" if looks >= LOOKS_IN_A_WAIT else ", too few to see short silences at all"
        yield (
            f"Scraped every {interval:g} s: silences are known to ±{interval:g} s, and {holds}"
            f"{too_few}: {who}."
        )


def _count(looks: int) -> str:
    return {0: "no look at all", 1: "one look only"}.get(looks, f"{looks} looks")


def _of_pages(report: Report) -> Iterator[str]:
    anonymous = [one for one in report.targets if not one.watched.identified]
    if anonymous:
        yield (
            "No process_start_time_seconds (several API servers, or not kept), so a restart shows "
            f"only as counters that fell, and absences blind more: {_names(anonymous)}."
        )
    unmeasured = [one for one in report.targets if not one.watched.measured]
    if unmeasured:
        yield f"No KV usage, without which no hang can be proven: {_names(unmeasured)}."


def _names(targets: Sequence[TargetReport]) -> str:
    names = ", ".join(one.name for one in targets[:NAMED])
    more = len(targets) - NAMED
    return f"{names} and {more} more" if more > 0 else names
