"""The report as tables and sentences for people; plain where it goes into a file or a pipe."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from exporter.backtest.document import written
from exporter.backtest.episode import End, Episode
from exporter.backtest.limits import limits
from exporter.backtest.report import MARGIN, Report
from fleet.judgement import WAITS_OF_PROOF

# Nothing is folded in a pipe: one row is one line there.
PIPE_WIDTH = 10_000
LEGEND = (
    "every: its scrape interval, the longest; hours: of its engines; failed: scrapes; "
    "restarts: seen; healed: its longest silence with work pending that ended by itself; "
    "wait: the shortest that covers it"
)
MINUTES_FROM = 600
HOURS_FROM = 7200


def show(report: Report, console: Console) -> None:
    """Print it."""
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    if report.episodes:
        console.print(_hangs(report))
        console.print()
    console.print(_targets(report))
    console.print(Text(LEGEND))
    console.print()
    for line in _summary(report):
        console.print(Text(line))
    console.print("\nWhat these series cannot show:", highlight=False)
    for sentence in limits(report):
        row = Table.grid(padding=(0, 1))
        row.add_row(Text("-"), Text(sentence))
        console.print(row)


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds < MINUTES_FROM:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < HOURS_FROM else f"{seconds / 3600:.1f} h"


def how_it_ended(episode: Episode) -> str:
    """A few words on the end of a proven hang."""
    later = duration(episode.after_proof)
    match episode.end:
        case End.CAME_BACK:
            return f"came back by itself {later} after the proof"
        case End.RESTARTED:
            return f"restarted {later} after the proof: {episode.how}"
        case End.STILL_HUNG:
            return f"still hung at the end, {later} after the proof"
        case End.DATA_ENDED:
            return f"its series end, {later} after the proof"


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def _hangs(report: Report) -> Table:
    table = _table()
    table.add_column("proven (UTC)", no_wrap=True)
    table.add_column("target", overflow="fold")
    table.add_column("engine")
    table.add_column("silent", justify="right", no_wrap=True)
    table.add_column("how it ended", overflow="fold")
    for one, episode in report.episodes:
        table.add_row(
            written(episode.proven_at),
            Text(one.name),
            Text(episode.engine),
            duration(episode.silence),
            Text(how_it_ended(episode)),
        )
    return table


def _targets(report: Report) -> Table:
    table = _table()
    table.add_column("target", overflow="fold")
    for column in ("every", "hours", "failed", "restarts", "healed", "wait"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in report.targets:
        healed, suggested = one.watched.longest, one.suggested_wait
        table.add_row(
            Text(one.name),
            f"{one.interval:g} s",
            f"{one.watched.engine_seconds / 3600:.1f}",
            str(one.watched.failed),
            str(one.watched.history.restarts),
            "-" if healed is None else duration(healed.seconds),
            "-" if suggested is None else f"{suggested:g} s",
        )
    return table


def _summary(report: Report) -> list[str]:
    engines = sum(len(one.watched.engines) for one in report.targets)
    ends = {
        "came back": report.ends[End.CAME_BACK],
        "restarted": report.ends[End.RESTARTED],
        "still hung": report.ends[End.STILL_HUNG],
        "without an end in the series": report.ends[End.DATA_ENDED],
    }
    ended = ", ".join(f"{count} {how}" for how, count in ends.items() if count)
    hangs = f" ({_count(len(report.episodes), 'engine')} hung: {ended})" if ended else ""
    watched = f"{_count(len(report.targets), 'target')}, {_count(engines, 'engine')}"
    span = f"{written(report.since)} to {written(report.until)}"
    return [
        f"Looked at {watched}, {report.engine_hours:.1f} engine-hours, {span}.",
        f"Would-be restarts with a wait of {report.wait:g} s: {report.restarts}{hangs}.",
        *_suggestion(report),
    ]


def _suggestion(report: Report) -> list[str]:
    longest, suggested = report.longest, report.suggested_wait
    if longest is None or suggested is None:
        return ["No silence with work pending healed by itself: these series suggest no wait."]
    one, healed = longest
    where = f"{one.name}, engine {healed.engine}, until {written(healed.ended_at)}"
    known = f"{healed.seconds:.0f} s (±{healed.interval:g} s; {where})"
    half = f"({healed.seconds:.0f} s + {healed.interval:g} s) / {WAITS_OF_PROOF}"
    sentences = [
        f"Longest silence with work pending that healed by itself: {known}.",
        f"Two waits have to be longer: a wait of at least {suggested:g} s ({MARGIN:g} x {half}).",
    ]
    if suggested <= report.wait:
        return [*sentences, f"The {report.wait:g} s looked with are enough."]
    if_not = "If that was a hang to be ended, or a pause, it says nothing about the wait."
    return [*sentences, if_not]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
