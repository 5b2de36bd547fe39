"""I/O: one incident from its alert to its end, with remediators that are killed meanwhile."""

import multiprocessing
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import requests
import yaml

from benchmarks.crash import program
from benchmarks.crash.boundary import Kill
from benchmarks.crash.plan import AtRandom
from benchmarks.crash.score import Result
from benchmarks.crash.world import TOKEN, World
from demo.child import free_ports

AT_RANDOM = "at a random time"
# The longest way: killed in a restart that had no effect, which is then waited for in full.
LONGEST_SECONDS = 90.0
# A second restart would come while the alert still fires: it is given the time to.
STILL_SECONDS = 3.0
POLL_SECONDS = 0.1
UNDER_WAY = {"planned", "acting", "starting"}

# Each process is forked from one that has the program imported: it starts in milliseconds.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["benchmarks.crash.program"])


@dataclass(frozen=True)
class Side:
    """Who treats the incidents: so many remediators.

    ``database`` makes a new database for an incident, from the incident's folder.
    """

    database: Callable[[Path], str]
    replicas: int
    takeover_after: str


class Episode:
    """One incident; ``play`` it once."""

    def __init__(
        self, name: str, folder: Path, side: Side, kills: Sequence[Kill | AtRandom], random: Random
    ) -> None:
        self.seen: list[Counter[str]] = []
        self._name = name
        self._folder = folder
        self._ports = free_ports(side.replicas)
        self._to_come = list(kills)
        self._kills: list[str] = []
        self._random = random
        self._lock = threading.Lock()
        self._over = threading.Event()
        webhooks = [f"http://127.0.0.1:{port}/api/alerts" for port in self._ports]
        self._world = World(name, folder, webhooks, random)
        self._gateways = folder / "gateways"
        self._fleet = folder / "fleet.yml"
        (folder / "token").write_text(TOKEN)
        self._fleet.write_text(yaml.safe_dump(self._settings(side)))

    def play(self) -> Result:
        """From the alert to the end, or to where nobody waits any longer."""
        slots = [
            threading.Thread(target=self._keep_running, args=(number,))
            for number in range(len(self._ports))
        ]
        with self._world as world:
            for slot in slots:
                slot.start()
            closed = self._wait_for_the_end()
            if closed:
                world.notify()  # as it is repeated from time to time
                time.sleep(STILL_SECONDS)
            self._over.set()
            for slot in slots:
                slot.join()
        return Result(
            name=self._name,
            kills=tuple(self._kills),
            restarts=len(world.restarts),
            acknowledged=world.acknowledged,
            refused=len(world.refused),
            recovered=world.answered > 0,
            closed=closed,
            drained=self._is_drained(),
            folder=str(self._folder),
        )

    def _settings(self, side: Side) -> dict[str, object]:
        backend = {
            "name": self._name,
            "url": self._world.url,
            "load_time": "1s",
            "restart": {"command": self._world.command, "timeout": "1s"},
            "gateways": [self._world.url],
        }
        ours = {
            "mode": "act",
            "token_file": "token",
            "alertmanager": self._world.url,
            "database": side.database(self._folder),
            "takeover_after": side.takeover_after,
            "confirm_for": "300ms",
            "answer_within": "300ms",
            "recheck_every": "500ms",
            "patrol_every": "1s",
            "cool_down": "1s",
            "helped_after": "1s",
            "give_up_after": 1000,
            "backend_restarts": 1000,
            "fleet_restarts": 1000,
        }
        return {"backends": [backend], "remediator": ours}

    def _keep_running(self, slot: int) -> None:
        """Start a remediator, and again whenever it was killed."""
        while not self._over.is_set():
            self._run_once(slot)
            self._over.wait(self._random.uniform(0.0, 0.3))

    def _run_once(self, slot: int) -> None:
        with self._lock:
            kill = self._to_come.pop(0) if self._to_come else None
            number = len(self.seen)
            self.seen.append(Counter())
        seen = self._folder / f"seen-{number}"
        process = _context.Process(
            target=program.run,
            args=(
                program.Start(
                    fleet=self._fleet,
                    port=self._ports[slot],
                    log=self._folder / f"log-{slot}",
                    seen=seen,
                    gateways=self._gateways,
                    kill=kill if isinstance(kill, Kill) else None,
                ),
            ),
            daemon=True,
        )
        process.start()
        until = time.monotonic() + (kill.after if isinstance(kill, AtRandom) else LONGEST_SECONDS)
        while process.is_alive() and not self._over.is_set() and time.monotonic() < until:
            process.join(POLL_SECONDS)
        if not self._over.is_set():
            self._note(kill, process)
        process.kill()
        process.join()
        if seen.exists():
            self.seen[number] = Counter(seen.read_text().splitlines())

    def _note(self, kill: Kill | AtRandom | None, process: BaseProcess) -> None:
        """A kill that there was; a process may also never come to its boundary."""
        if isinstance(kill, AtRandom) and process.is_alive():
            self._kills.append(AT_RANDOM)
        elif isinstance(kill, Kill) and process.exitcode == -signal.SIGKILL:
            self._kills.append(kill.boundary)

    def _wait_for_the_end(self) -> bool:
        """Wait until the remediator is done with the incident; tells whether it is, in time."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            if self._world.answered and self._is_closed():
                return True
            time.sleep(POLL_SECONDS * 2)
        return False

    def _is_drained(self) -> bool:
        told = self._gateways.read_text().split() if self._gateways.exists() else []
        return told[-1:] == ["drain"]

    def _is_closed(self) -> bool:
        url = f"http://127.0.0.1:{self._random.choice(self._ports)}/api"
        try:
            attempts = requests.get(f"{url}/attempts", timeout=2).json()
            incidents = requests.get(f"{url}/incidents", timeout=2).json()
        except (requests.RequestException, ValueError):
            return False
        return (
            any(attempt["state"] == "recovered" for attempt in attempts)
            and not any(attempt["state"] in UNDER_WAY for attempt in attempts)
            and any(incident["reason"] == "already_handled" for incident in incidents)
        )
