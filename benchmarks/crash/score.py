"""What came of the incidents, by the boundaries at which their processes were killed."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One incident: where it was killed, and what the server and its restart command saw.

    ``recovered``: whether the new server was asked and answered, which is how a recovery is
    verified. ``closed``: whether the remediator was done with the incident in time.
    ``drained``: whether the gateways still use it for nothing. ``folder`` holds the logs.
    """

    name: str
    kills: tuple[str, ...]
    restarts: int
    acknowledged: int
    refused: int
    recovered: bool
    closed: bool
    drained: bool
    folder: str

    @property
    def double(self) -> int:
        """How many restarts were one too many."""
        return max(0, self.restarts - 1)

    @property
    def lost(self) -> bool:
        """Whether it was acknowledged and not brought to its end, or never acknowledged at all.

        The server is stuck until it is restarted, so there is one right end: one restart, verified,
        and its streams let back.
        """
        done = self.restarts >= 1 and self.recovered and self.closed and not self.drained
        return not done or self.acknowledged == 0 or self.refused > 0


@dataclass(frozen=True)
class Row:
    """The kills at one step and what came of the incidents in which they were."""

    step: str
    kills: int
    incidents: int
    restarts: int
    double: int
    lost: int


def step(boundary: str) -> str:
    """The step that a boundary belongs to."""
    return boundary.rpartition(": ")[0] or boundary


def rows(results: Iterable[Result]) -> list[Row]:
    """One for each step, by name; an incident is in the row of each step that it was killed at."""
    found = list(results)
    steps = sorted({step(kill) for result in found for kill in result.kills})
    return [row(name, [r for r in found if name in map(step, r.kills)], name) for name in steps]


def row(title: str, results: list[Result], only: str | None = None) -> Row:
    """These incidents as one row, with all their kills or only those at one step."""
    kills = [kill for r in results for kill in r.kills if only is None or step(kill) == only]
    return Row(
        title,
        len(kills),
        len(results),
        sum(result.restarts for result in results),
        sum(result.double for result in results),
        sum(result.lost for result in results),
    )
