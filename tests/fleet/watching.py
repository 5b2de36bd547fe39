"""Pages and looks on a virtual clock, put through the judgement as the exporter does."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fleet.backend import Backend, Kind
from fleet.fetch import Failure, Trouble
from fleet.history import History, Look, after
from fleet.judgement import Judgement, judge
from fleet.reading import Reading

INTERVAL = 15.0
WARM_UP = 180.0
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def backend(wait: float = 60.0, kind: Kind = Kind.VLLM, name: str = "gpu-a") -> Backend:
    return Backend(
        name=name,
        url="http://127.0.0.1:8000",
        kind=kind,
        wait=wait,
        load_time=600.0,
        warm_up=WARM_UP,
    )


@dataclass(frozen=True)
class Step:
    """One poll's outcome on the virtual clock, with what came of it."""

    history: History
    judgement: Judgement


def watch(
    results: Iterable[Reading | Failure],
    *,
    wait: float = 60.0,
    interval: float = INTERVAL,
    start: float = 1000.0,
) -> Iterator[Step]:
    """Poll results one interval apart; each read takes 20 ms."""
    history = History()
    for i, result in enumerate(results):
        began = start + i * interval
        history = after(
            history, Look(began, began + 0.02, result), interval=interval, warm_up=WARM_UP
        )
        yield Step(history, judge(history, backend(wait)))


REFUSED = Failure(Trouble.REFUSED, "the connection was refused")
TIMEOUT = Failure(Trouble.TIMEOUT, "/metrics did not answer in full within 5 s")


def recorded(name: str) -> list[Reading]:
    """The pages of one recording, as readings."""
    return [
        Reading.from_page(page.read_text()) for page in sorted((RECORDINGS / name).glob("*.prom"))
    ]
