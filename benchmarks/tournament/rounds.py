"""Every method on every server, over several processes."""

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from benchmarks.tournament.event import Spec
from benchmarks.tournament.match import play
from benchmarks.tournament.method import Method
from benchmarks.tournament.methods.chat import ChatWatchdog
from benchmarks.tournament.methods.counters import (
    LastToken,
    StepsForFiveMinutes,
    StepsTwice,
    StepsWithGrace,
    TokensForAMinute,
    ZeroThroughput,
)
from benchmarks.tournament.methods.health import HealthProbe
from benchmarks.tournament.methods.lifeguard import Lifeguard, LifeguardAlert
from benchmarks.tournament.recorded import recordings
from benchmarks.tournament.score import Score
from benchmarks.tournament.workload import servers, small_ones

METHODS: tuple[Callable[[], Method], ...] = (
    ChatWatchdog,
    TokensForAMinute,
    ZeroThroughput,
    StepsTwice,
    StepsWithGrace,
    StepsForFiveMinutes,
    LastToken,
    HealthProbe,
    Lifeguard,
)
SEED = 20261130


@dataclass(frozen=True)
class Size:
    """How large a tournament is; seasons are in hours."""

    servers: int
    season: float
    simulated: float
    recorded: float


SIZES = {
    "small": Size(servers=13, season=16.0, simulated=0.4, recorded=0.75),
    "full": Size(servers=442, season=24.0, simulated=1.5, recorded=2.0),
}


def tournament(
    specs: Sequence[Spec], jobs: int, methods: Sequence[Callable[[], Method]] = METHODS
) -> dict[str, Score]:
    """Every method on every server; the scores in the order of the methods, alerts behind."""
    scores: dict[str, Score] = {}
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=gc.disable) as pool:
        for played in pool.map(_one, [(spec, methods) for spec in specs]):
            for name, score in played.items():
                scores.setdefault(name, Score()).add(score)
    return scores


def _one(task: tuple[Spec, Sequence[Callable[[], Method]]]) -> dict[str, Score]:
    spec, methods = task
    scores = {}
    for method in methods:
        score, alerts = play(spec, method)
        name = method().name
        scores[name] = score
        if name == Lifeguard.name:
            scores[LifeguardAlert.name] = alerts
    gc.collect()
    return scores


def specs(size: Size, seed: int) -> list[Spec]:
    """All servers of a tournament."""
    return [
        *servers(seed, size.servers, size.season),
        *small_ones(seed, size.simulated),
        *recordings(size.recorded),
    ]
