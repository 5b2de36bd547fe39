"""The page for people as a value: which backends, in what groups, and the words beside them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from urllib.parse import urlencode

from exporter.rates import Seen
from exporter.sparkline import highest, number
from exporter.view import BackendRow, EngineRow, LookRow, Query, Urgency, counts
from fleet.state import State

HEADINGS: Mapping[Urgency, str] = {
    Urgency.PERSON: "Wants a person",
    Urgency.WATCH: "Worth watching",
    Urgency.NONE: "All right",
}
SHORTEST_SPAN = 60.0
MINUTE, HOUR, DAY = 60, 3600, 86400


@dataclass(frozen=True)
class Link:
    """A choice of backends: what it is called, how many there are, where, and if it is chosen."""

    name: str
    many: int
    href: str
    chosen: bool


@dataclass(frozen=True)
class Board:
    """All backends ``found``, worst first, and the part of them that ``query`` wants.

    ``configured`` counts those of fleet.yml, read or not.
    """

    found: Sequence[BackendRow]
    query: Query
    configured: int

    @cached_property
    def shown(self) -> list[BackendRow]:
        """The backends that are wanted, the worst first."""
        return [row for row in self.found if self.query.wants(row)]

    @cached_property
    def groups(self) -> list[tuple[Urgency, str, list[BackendRow]]]:
        """What is shown, by urgency, each with its heading; groups of none are left out."""
        shown = self.shown
        by_urgency = (
            (urgency, heading, [row for row in shown if row["urgency"] is urgency])
            for urgency, heading in HEADINGS.items()
        )
        return [group for group in by_urgency if group[2]]

    @cached_property
    def links(self) -> list[Link]:
        """One link for all and one a state that any backend is in, keeping what is looked for."""
        return list(self._links())

    def _links(self) -> Iterator[Link]:
        text = {"q": self.query.text} if self.query.text else {}
        everything = f"?{urlencode(text)}"
        yield Link("all", len(self.found), everything, not self.query.states)
        for state, many in counts(self.found).items():
            href = f"?{urlencode({'state': state, **text})}"
            yield Link(state, many, href, state in self.query.states)

    @cached_property
    def summary(self) -> str:
        """What most wants a person, in a few words: the title of the page."""
        many = sum(row["urgency"] is Urgency.PERSON for row in self.found)
        if many:
            return f"{many} of {len(self.found)} {'wants' if many == 1 else 'want'} a person"
        return f"{len(self.found)} of {self.configured} backends read, none wants a person"

    @cached_property
    def span(self) -> float:
        """The seconds that every graph shows, so that what happened together stands together."""
        ages = [
            engine["looks"][0]["age_seconds"]
            for row in self.found
            if not row["stale"]
            for engine in row["engines"]
            if engine["looks"]
        ]
        return max(ages, default=SHORTEST_SPAN) or SHORTEST_SPAN


def duration(seconds: float) -> str:
    """A duration in its one or two largest units."""
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def moment(unix: float, age: float) -> str:
    """A moment ``age`` seconds ago; with its day if that is not clear."""
    form = "%H:%M:%S UTC" if age < DAY / 2 else "%d %b %Y, %H:%M UTC"
    return datetime.fromtimestamp(unix, UTC).strftime(form)


def iso(unix: float) -> str:
    """The same moment for programs."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="seconds")


def caption(looks: Sequence[LookRow]) -> str:
    """The latest step rate, and what else the latest look showed, in a few words."""
    if not looks:
        return "no look yet"
    last, top = looks[-1], highest(looks)
    at_most = f" of at most {number(top)}" if top else ""
    rate = f"{number(last['step_rate'] or 0.0)}{at_most} steps/s"
    before = f", at most {number(top)} steps/s" if top else ""
    words = {
        Seen.STEPS: rate,
        Seen.MOVED: f"{rate}, moving",
        Seen.SILENT: rate,
        Seen.STILL: rate,
        Seen.FIRST: f"no rate yet{before}",
        Seen.RESTARTED: f"new process{before}",
        Seen.FAILED: f"no reading{before}",
    }
    return words[Seen(last["seen"])]


def silence(engine: EngineRow, row: BackendRow) -> str:
    """How long an engine has been silent with work pending, of how long that is proof."""
    quiet, proof = engine["quiet_seconds"], row["stuck_after_seconds"]
    if quiet < proof:
        return f"silent {quiet:.0f} s of {proof:g} s"
    return f"silent {quiet:.0f} s, stuck at {proof:g} s"


def reason(why: str, state: State) -> str:
    """The sentence without the state's name, which stands beside it."""
    return why.removeprefix(f"{state}: ")
