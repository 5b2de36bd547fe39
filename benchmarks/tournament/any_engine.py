"""What a server needs of an engine, whichever it is."""

from typing import Protocol

from benchmarks.tournament.job import Job
from benchmarks.tournament.published import Published
from fleet.reading import EngineReading


class AnyEngine(Protocol):
    """What a server needs of an engine: the leaping one or ``demo.vllm``'s."""

    awake: bool

    @property
    def published(self) -> Published:
        """What a successor goes on with where pages are carried over."""

    @property
    def busy(self) -> bool:
        """Whether it really has anything running or waiting, whatever the page says."""

    @property
    def shows_work(self) -> bool:
        """Whether a page shows anything of what it has to do now."""

    @property
    def at_work(self) -> int:
        """How many requests it really has running or waiting."""

    def submit(self, job: Job, at: float) -> None:
        """A request arrives."""

    def abort(self, job: Job, at: float) -> None:
        """Nobody waits for this request any more."""

    def freeze(self, now: float) -> None:
        """Stop until thawed."""

    def thaw(self, now: float) -> None:
        """Go on where it stood."""

    def pause(self, seconds: float, now: float) -> None:
        """Stand still for some seconds."""

    def compile(self, seconds: float) -> None:
        """Make the next step that begins take longer by this much."""

    def deadlock(self, now: float, *, patient: bool) -> None:
        """Never admit anything again."""

    def advance(self, now: float) -> None:
        """Carry out everything that happens up to ``now``."""

    def reading(self, *, gauges_absent: bool, reasons: bool) -> EngineReading:
        """The page's values."""
