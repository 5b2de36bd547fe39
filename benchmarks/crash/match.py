"""I/O: many incidents, several at a time, until there were enough kills."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from benchmarks.crash.episode import Episode, Side
from benchmarks.crash.plan import Plan
from benchmarks.crash.score import Result

KILLS_PER_INCIDENT = 4


class Match:
    """Incidents for one side; each has a folder of its own."""

    def __init__(self, folder: Path, side: Side, seed: int) -> None:
        self.results: list[Result] = []
        self._folder = folder
        self._side = side
        self._random = Random(seed)  # noqa: S311 -- nobody's secret
        self._plan = Plan(self._random)
        self._lock = threading.Lock()
        self._played = 0

    def play(self, kills: int, at_once: int) -> None:
        """Play until there were at least so many kills. First one incident without any."""
        self._one()
        with ThreadPoolExecutor(at_once) as pool:
            for lane in [pool.submit(self._until, kills) for _ in range(at_once)]:
                lane.result()

    @property
    def kills(self) -> int:
        """How many there were."""
        return sum(len(result.kills) for result in self.results)

    def _until(self, kills: int) -> None:
        while self.kills < kills:
            self._one()

    def _one(self) -> None:
        with self._lock:
            number = self._played
            self._played += 1
            kills = self._plan.next(KILLS_PER_INCIDENT)
            random = Random(self._random.random())  # noqa: S311 -- as above
        folder = self._folder / str(number)
        folder.mkdir()
        episode = Episode(f"gpu-{number}", folder, self._side, kills, random)
        result = episode.play()
        with self._lock:
            self.results.append(result)
            self._plan.killed(result.kills)
            for times in episode.seen:
                self._plan.seen(times)
