"""Goes through what a Prometheus has kept, day by day and target by target, and watches it.

Only one piece of one target is in memory at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from exporter.backtest.flags import Options
from exporter.backtest.looks import looks, scrape_interval
from exporter.backtest.prometheus import CannotTellError, Piece, Prometheus
from exporter.backtest.report import Report, TargetReport
from exporter.backtest.target import Target
from exporter.backtest.watched import Watched, finished, watch

DAY_SECONDS = 86400
# With fewer distances than this the interval of the piece before is the better guess.
ENOUGH_TIMES = 10
# Of a target that was looked at once; nothing is judged by one look.
UNKNOWN_INTERVAL = 60.0


class Progress(Protocol):
    """Told how far the replay has come."""

    def at(self, done: float, what: str) -> None:
        """``done`` of all, 0 to 1, and what is being read."""


@dataclass
class _Tape:
    """One target on the way: what watching it came to, and when it was looked at.

    ``interval`` is the latest that was measured, and ``longest`` the longest, in seconds.
    """

    watched: Watched = field(default_factory=Watched)
    interval: float | None = None
    longest: float = 0.0

    def play(self, piece: Piece, target: Target, wait: float) -> None:
        found = looks(piece.series, target, after=piece.start)
        times = [look.ended for look in found]
        if self.watched.last is not None:
            times.insert(0, self.watched.last)
        measured = scrape_interval(times)
        if measured is not None and len(times) > ENOUGH_TIMES:
            self.interval = measured
            self.longest = max(self.longest, measured)
        elif self.interval is None:
            self.interval = measured
        for look in found:
            self.watched = watch(
                self.watched, look, interval=self.interval or UNKNOWN_INTERVAL, wait=wait
            )

    def report(self, target: Target, name: str, until: int) -> TargetReport:
        interval = self.interval or UNKNOWN_INTERVAL
        watched = finished(self.watched, until=until, interval=interval)
        return TargetReport(target, name, watched, self.longest or interval)


def replay(prometheus: Prometheus, options: Options, progress: Progress) -> Report:
    """Everything that ``options`` ask for. Raises CannotTellError."""
    tapes: dict[Target, _Tape] = {}
    whole = options.until - options.since
    for start, end in _days(options.since, options.until):
        found = prometheus.targets(start, end, options.match)
        for i, (target, names) in enumerate(found.items()):
            tape = tapes.setdefault(target, _Tape())
            done = (start - options.since + (end - start) * i / len(found)) / whole
            progress.at(done, target.name)
            for piece in prometheus.pieces(target, names, start, end):
                tape.play(piece, target, options.wait)
    seen = {target: tape for target, tape in sorted(tapes.items()) if tape.watched.looks}
    if not seen:
        chosen = f" for {{{options.match}}}" if options.match else ""
        raise CannotTellError(f"{prometheus.url}: no series of a vLLM in that time{chosen}")
    names_of = _names(list(seen))
    return Report(
        prometheus=prometheus.url,
        since=options.since,
        until=options.until,
        wait=options.wait,
        targets=[tape.report(one, names_of[one], options.until) for one, tape in seen.items()],
        warnings=sorted(prometheus.warnings),
    )


def _days(since: int, until: int) -> Iterator[tuple[int, int]]:
    for start in range(since, until, DAY_SECONDS):
        yield start, min(start + DAY_SECONDS, until)


def _names(targets: list[Target]) -> dict[Target, str]:
    """Short names where they tell the targets apart."""
    short = [target.name for target in targets]
    return {
        target: target.name if short.count(target.name) == 1 else target.full_name
        for target in targets
    }
