"""Recorded pages of real vLLM servers, played over and over under the tournament's clock.

A recording that shows a healthy server goes round and round: in each round the counters go on from
where they were by what they rose in one, and one more step is counted. One that shows a hang is
played once and its last page stays. What became of requests is not recorded and is taken to be
what the recording says of the engine: none is answered by a frozen one, nor, in time, behind a full
queue.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from benchmarks.tournament.event import HangKind, On, Spec
from benchmarks.tournament.job import Job, Pace
from benchmarks.tournament.seen import FIRST_START, REFUSED, Ticket
from benchmarks.tournament.server import Hang
from fleet.fetch import Failure
from fleet.reading import COUNTED, EngineReading, Reading

RECORDINGS = Path(__file__).parents[2] / "tests" / "fixtures" / "recordings"
NEVER = float("inf")


@dataclass(frozen=True)
class Truth:
    """What is known of a recording: how it hangs, and after how long it answers, in seconds."""

    hang: HangKind | None = None
    answers_after: float = NEVER


TRUTHS = {
    "idle": Truth(answers_after=0.1),
    "busy-decode": Truth(answers_after=1.0),
    "long-prefill": Truth(answers_after=63.0),
    "queue-full": Truth(),
    "multiprocess-idle": Truth(answers_after=0.1),
    "multiprocess-busy": Truth(answers_after=1.0),
    "multiprocess-after-restart": Truth(answers_after=0.1),
    "after-restart": Truth(answers_after=0.1),
    "behind-least-conn-proxy": Truth(answers_after=1.0),
    "frozen-while-running": Truth(HangKind.RUNNING),
    "frozen-while-idle": Truth(HangKind.IDLE),
    "dp2-one-engine-frozen": Truth(HangKind.ONE_RANK),
}


def recordings(hours: float) -> list[Spec]:
    """A server for each recording but ``engine-killed``, which ends by itself within 3 s."""
    return [
        Spec(name, "recordings of a real vLLM", 0, hours, Pace(), (), on=On.RECORDING)
        for name in TRUTHS
    ]


class RecordedServer:
    """A recording as a server; after a restart it is another one, of which nothing is known."""

    def __init__(self, spec: Spec) -> None:
        folder = RECORDINGS / spec.name
        pages = json.loads((folder / "manifest.json").read_text())["pages"]
        self._times = [page["at_s"] for page in pages]
        read = [Reading.from_page((folder / page["file"]).read_text()) for page in pages]
        self._readings = [_on_virtual_clock(reading, read[0]) for reading in read]
        self._truth = TRUTHS[spec.name]
        self._names = 0
        self.hang = Hang(self._truth.hang, 0.0) if self._truth.hang else None
        self.up_at = 0.0
        self.lost = self.sent_to_busy = self.sent_to_unseen = self.sent_to_hung = 0
        self.over = False

    def catch_up(self, now: float) -> None:
        """Nothing happens that is not on the pages."""

    def metrics(self, now: float, timeout: float) -> Reading | Failure:
        """The page of that moment."""
        del timeout
        if self.over:
            return REFUSED
        spacing = (self._times[-1] - self._times[0]) / (len(self._times) - 1)
        number = int(now / spacing)
        if self._truth.hang:
            return self._readings[min(number, len(self._readings) - 1)]
        rounds, index = divmod(number, len(self._readings))
        return self._shifted(self._readings[index], rounds)

    def health(self, now: float, timeout: float) -> Failure | None:
        """200, as recorded."""
        del now, timeout
        return REFUSED if self.over else None

    def is_paused(self, now: float) -> bool | None:
        """None of them served it."""
        del now
        return None

    def send(self, now: float, engine: str | None, prompt: int, target: int) -> Ticket | Failure:
        """A request of which the recording knows nothing."""
        reading = self.metrics(now, 1.0)
        if isinstance(reading, Failure):
            return reading
        self._names += 1
        if self.hang is not None:
            self.sent_to_hung += 1
        elif any(each.anything_pending for each in reading.engines.values()):
            self.sent_to_busy += 1
        job = Job(f"method-{self._names}", prompt, target, done_at=now + self._truth.answers_after)
        return Ticket(job, int(engine or 0))

    def answered_at(self, ticket: Ticket, now: float) -> float | None:
        """After what is known of this recording."""
        done = ticket.job.done_at
        # The other engine of two answers.
        return done if done is not None and done <= now else None

    def abandon(self, ticket: Ticket, now: float) -> None:
        """Nothing changes."""

    def restart(self, now: float) -> None:
        """What was recorded is over."""
        self.hang = None
        self.up_at = now
        self.over = True

    def _shifted(self, reading: Reading, rounds: int) -> Reading:
        group = [each for each in self._readings if each.start_time == reading.start_time]
        engines = {
            name: _shifted(engine, group[0].engines[name], group[-1].engines[name], rounds)
            for name, engine in reading.engines.items()
        }
        return replace(reading, engines=MappingProxyType(engines))


def _on_virtual_clock(reading: Reading, first: Reading) -> Reading:
    """Started some hours before the virtual clock was at 0."""
    if reading.start_time is None or first.start_time is None:
        return reading
    began = FIRST_START - 2 * 3600
    return replace(reading, start_time=began + reading.start_time - first.start_time)


def _shifted(
    engine: EngineReading, first: EngineReading, last: EngineReading, rounds: int
) -> EngineReading:
    """The values ``rounds`` rounds later."""
    rises = {
        name: getattr(last, name) - getattr(first, name)
        for name in COUNTED
        if getattr(engine, name) is not None
    }
    if engine.anything_pending:
        # What begins anew with a round was finished at the end of the one before.
        for name in ("steps", "generation_tokens"):
            rises[name] = rises.get(name, 0.0) + 1
    return replace(
        engine, **{name: getattr(engine, name) + rise * rounds for name, rise in rises.items()}
    )
