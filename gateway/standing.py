"""How a backend stands in this gateway's own eyes, and what others say of it."""

from dataclasses import dataclass, field
from enum import StrEnum

from fleet.backend import Backend

# After so many failures in a row a backend is asked by nobody but the looks.
MOST_FAILURES = 3
FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 30.0
# What the exporter says of a server that gets nothing done; of all else it is left to our own eyes.
BAD_STATES = frozenset({"stuck", "starved", "engine_dead", "down", "sleeping", "paused"})


class Traffic(StrEnum):
    """Whether requests are sent to a backend; the values are the admin API's words."""

    UP = "up"
    DRAINING = "draining"
    DRAINED = "drained"
    DOWN = "down"


@dataclass
class Standing:
    """One backend. Times are seconds of the loop's clock.

    ``models`` is None before it has told them. ``verdict`` is the exporter's, empty where none is
    known. ``continues`` tells whether it goes on with a chat from token ids, None before it was
    tried.
    """

    backend: Backend
    in_flight: int = 0
    models: frozenset[str] | None = None
    model_cards: tuple[dict[str, object], ...] = ()
    failures: int = 0
    resting_until: float = 0.0
    reachable: bool = False
    verdict: str = ""
    draining: bool = False
    drain_until: float = 0.0
    continues: bool | None = None
    refused: int = field(default=0)

    def is_up(self, now: float) -> bool:
        """Whether a request may be sent to it."""
        return (
            self.reachable
            and not self.draining
            and self.verdict not in BAD_STATES
            and now >= self.resting_until
        )

    def serves(self, model: str) -> bool:
        """Whether it has a model of this name."""
        return self.models is not None and model in self.models

    def traffic(self, now: float) -> Traffic:
        """The word for how it stands."""
        if self.draining:
            return Traffic.DRAINING if self.in_flight else Traffic.DRAINED
        return Traffic.UP if self.is_up(now) else Traffic.DOWN

    def forgive(self) -> None:
        """Forget its failures; whether it is there is for the looks to say."""
        self.failures = 0
        self.resting_until = 0.0

    def went_well(self) -> None:
        """An exchange with it went well."""
        self.forgive()
        self.reachable = True

    def failed(self, now: float) -> None:
        """It could not be reached, or broke off: it rests, longer each time."""
        self.failures += 1
        rest = min(FIRST_REST_SECONDS * 2.0 ** (self.failures - 1), LONGEST_REST_SECONDS)
        self.resting_until = now + rest
        if self.failures >= MOST_FAILURES:
            self.reachable = False
