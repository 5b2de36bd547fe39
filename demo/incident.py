"""The incident and its answer: three servers, one healthy but busy, two frozen, one silenced.

gpu-a reads one very long prompt, then batch jobs hold every slot: the server that the incident's
watchdog restarted eight times in a day. gpu-b freezes with requests running. gpu-c freezes as well,
but on-call has silenced it for a while.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import requests

from demo.scene import Scene
from demo.servers import Server, short_requests
from demo.stack import Stack

WAIT = 10.0
INTERVAL = 0.5
# What a scrape and an evaluation of recording and alerting rules may add, as paced by the stack.
SCRAPE_AND_EVALUATION = 1.0
SILENCE_HOLDS_FOR = 8.0
LONG_PROMPT = {"tokens": 28000}
LOAD_SECONDS = 4


class Act(StrEnum):
    """How far the incident has come."""

    WORK = "work arrives"
    FROZEN = "gpu-b and gpu-c freeze"
    SILENCED = "gpu-c is silenced"
    LIFTED = "the silence ends"
    OVER = "over"


@dataclass
class Outcome:
    """What happened, counted at the servers themselves: a restart is a new start time.

    ``detect_s``: from gpu-b's freeze to its alert, in seconds; None if it never fired.
    ``busy_requests``: requests of ours, other than reads, that gpu-a received.
    """

    restarts: dict[str, int] = field(default_factory=dict)
    silenced_restarts: int = 0
    detect_s: float | None = None
    busy_requests: int = 0
    read_for: float = 0.0
    pages: int = 0

    @property
    def total(self) -> int:
        """All restarts."""
        return sum(self.restarts.values())

    @property
    def false_restarts(self) -> int:
        """Restarts of the healthy server, and any beyond the first of a frozen one."""
        return sum(
            count if name == "gpu-a" else max(0, count - 1) for name, count in self.restarts.items()
        )

    def problems(self) -> list[str]:
        """What was not as it ought to be, one sentence each; empty for a good run."""
        bound = 2 * WAIT + 2 * INTERVAL + SCRAPE_AND_EVALUATION
        wanted = {"gpu-a": 0, "gpu-b": 1, "gpu-c": 1}
        found = [
            f"{name} was restarted {self.restarts.get(name, 0)} times, not {count}"
            for name, count in wanted.items()
            if self.restarts.get(name, 0) != count
        ]
        if self.silenced_restarts:
            found.append(f"gpu-c was restarted {self.silenced_restarts} times while silenced")
        if self.busy_requests:
            found.append(f"gpu-a, which was busy, was sent {self.busy_requests} requests by us")
        if self.read_for < 2 * WAIT:
            found.append(f"gpu-a's long prompt was seen for {self.read_for:.0f} s, not two waits")
        if self.detect_s is None or self.detect_s > bound:
            found.append(f"gpu-b's hang was found after {self.detect_s} s, not within {bound:g} s")
        if self.pages:
            found.append(f"a person was paged {self.pages} times for what was repaired")
        return found

    def result(self) -> str:
        """The last line."""
        detect = "none" if self.detect_s is None else f"{self.detect_s:.1f}"
        return (
            f"RESULT restarts={self.total} false_restarts={self.false_restarts} "
            f"silenced_restarts={self.silenced_restarts} detect_s={detect}"
        )


class Incident:
    """Plays the incident, a step at each scene that is shown to it. ``say`` gets its sentences."""

    def __init__(
        self, stack: Stack, servers: dict[str, Server], say: Callable[[str], None]
    ) -> None:
        self.act = Act.WORK
        self.outcome = Outcome()
        self._stack = stack
        self._servers = servers
        self._say = say
        self._starts: dict[str, float] = {}
        self._frozen_at = 0.0
        self._reading_since: float | None = None
        self._stuck_since: float | None = None
        self._silence = ""

    def step(self, scene: Scene) -> None:
        """Take notice of a scene, and do what comes next once its moment has come."""
        self._observe(scene)
        match self.act:
            case Act.WORK if scene.state("gpu-b") == scene.state("gpu-c") == "busy":
                self._freeze()
            case Act.FROZEN if scene.firing("VLLMEngineStuck", "gpu-c"):
                self.act = Act.SILENCED
                self._stuck_since = time.monotonic()
                self._say("gpu-c is proven stuck as well, but on-call has silenced it")
            case Act.SILENCED if self._silence_has_held(scene):
                self._lift_silence()
            case Act.LIFTED if self._all_recovered(scene):
                self.act = Act.OVER

    def _observe(self, scene: Scene) -> None:
        for name, state in scene.servers.items():
            if state is not None:
                self._notice_restart(name, state["start_time"], scene)
        busy = scene.servers["gpu-a"]
        if busy is not None:
            self.outcome.busy_requests = short_requests(busy)
            if busy["engines"][0]["generation_tokens"] == 0:
                self._reading_since = self._reading_since or time.monotonic()
                self.outcome.read_for = time.monotonic() - self._reading_since
        alert = scene.firing("VLLMEngineStuck", "gpu-b")
        if alert is not None and self.outcome.detect_s is None and self._frozen_at:
            fired = datetime.fromisoformat(alert["activeAt"]).timestamp()
            self.outcome.detect_s = fired - self._frozen_at
            self._say(f"gpu-b is proven stuck, {self.outcome.detect_s:.1f} s after it froze")
        self.outcome.pages = len(scene.pages)

    def _notice_restart(self, name: str, start_time: float, scene: Scene) -> None:
        before = self._starts.setdefault(name, start_time)
        if start_time == before:
            return
        self._starts[name] = start_time
        self.outcome.restarts[name] = self.outcome.restarts.get(name, 0) + 1
        if name in scene.silenced:
            self.outcome.silenced_restarts += 1
        self._say(f"{name} was restarted")

    def _freeze(self) -> None:
        self._silence = silence(self._stack, "gpu-c", "looking into it myself")
        self._say("on-call silences gpu-c")
        for name in ("gpu-b", "gpu-c"):
            self._servers[name].fault("freeze")
        self._frozen_at = time.time()
        self.act = Act.FROZEN
        self._say("gpu-b and gpu-c freeze, each with three requests running")

    def _silence_has_held(self, scene: Scene) -> bool:
        held = time.monotonic() - (self._stuck_since or time.monotonic())
        return held >= SILENCE_HOLDS_FOR and scene.attempt("gpu-b") == "recovered"

    def _lift_silence(self) -> None:
        url = f"{self._stack.alertmanager}/api/v2/silence/{self._silence}"
        requests.delete(url, timeout=5).raise_for_status()
        self.act = Act.LIFTED
        self._say("the silence on gpu-c ends")

    def _all_recovered(self, scene: Scene) -> bool:
        recovered = all(scene.attempt(name) == "recovered" for name in ("gpu-b", "gpu-c"))
        return recovered and self.outcome.read_for >= 2 * WAIT


def give_work_to_the_busy_one(server: Server) -> None:
    """One very long prompt, and behind it batch jobs for twice as many slots as there are."""
    server.fault("prefill", **LONG_PROMPT)
    server.fault("batch", requests=8, max_tokens=3000)


def silence(stack: Stack, backend: str, comment: str) -> str:
    """Silence every alert of a backend for an hour, as a person does; the silence's id."""
    now = datetime.now(UTC)
    answer = requests.post(
        f"{stack.alertmanager}/api/v2/silences",
        json={
            "matchers": [{"name": "backend", "value": backend, "isRegex": False}],
            "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(hours=1)).isoformat(),
            "createdBy": "on-call",
            "comment": comment,
        },
        timeout=5,
    )
    answer.raise_for_status()
    return str(answer.json()["silenceID"])
