"""The benchmark that kills remediators: what it counts, and a small one of it, played in full."""

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
import requests

from benchmarks.crash.boundary import Kill, step_of
from benchmarks.crash.episode import Side
from benchmarks.crash.match import Match
from benchmarks.crash.plan import AtRandom, Plan
from benchmarks.crash.score import Result, Row, row, rows
from benchmarks.crash.watched import WatchedDatabase
from benchmarks.crash.world import World
from remediator.store import Store

KILLS = 20
ROOT = Path(__file__).parents[2]


def result(**changed: object) -> Result:
    values: dict[str, object] = {
        "name": "gpu-1",
        "kills": ("prove: before", "prove: after", "drain: before"),
        "restarts": 1,
        "acknowledged": 2,
        "refused": 0,
        "recovered": True,
        "closed": True,
        "drained": False,
        "folder": "/there",
    }
    return Result(**{**values, **changed})  # type: ignore[arg-type]


LOST = {
    "never restarted": {"restarts": 0, "recovered": False},
    "restarted, and nobody looked whether it helped": {"recovered": False},
    "never done with": {"closed": False},
    "left without streams": {"drained": True},
    "never acknowledged": {"acknowledged": 0},
    "refused for good": {"refused": 1},
}


@pytest.mark.parametrize("changed", LOST.values(), ids=list(LOST))
def test_an_incident_is_lost(changed: dict[str, object]) -> None:
    assert result(**changed).lost


def test_an_incident_with_one_verified_restart_is_not_lost() -> None:
    assert not result().lost
    assert result().double == 0
    assert result(restarts=3).double == 2


def test_an_incident_is_in_the_row_of_each_step_that_it_was_killed_at() -> None:
    found = [result(), result(kills=("prove: after",), restarts=2)]
    assert rows(found) == [Row("drain", 1, 1, 1, 0, 0), Row("prove", 3, 2, 3, 1, 0)]
    assert row("all", found) == Row("all", 4, 2, 3, 1, 0)


def test_the_boundaries_that_were_planned_least_come_first() -> None:
    plan = Plan(Random(1))
    assert plan.next(3) == []
    plan.seen(Counter({"a: before": 9, "b: before": 1}))
    first, second, last = plan.next(3)
    assert {kill.boundary for kill in (first, second) if isinstance(kill, Kill)} == {
        "a: before",
        "b: before",
    }
    assert isinstance(last, AtRandom)
    plan.seen(Counter({"c: before": 1}))
    assert plan.next(2)[0] == Kill("c: before", 1)


class Seen:
    """Boundaries that only remembers them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def reach(self, name: str) -> None:
        self.names.append(name)


def test_a_transaction_has_boundaries_named_by_who_asks(tmp_path: Path) -> None:
    seen = Seen()
    url = f"sqlite:///{tmp_path / 'remediator.db'}"
    store = Store(url, database=lambda url: WatchedDatabase(url, seen))  # type: ignore[arg-type]
    seen.names.clear()
    store.incidents.look_again(1, datetime.now(UTC))
    assert seen.names == [
        "Incidents.look_again: before",
        "Incidents.look_again: not committed",
        "Incidents.look_again: committed",
    ]
    store.close()
    assert step_of(None) == "start-up"


KILLED = """
from datetime import UTC, datetime
from pathlib import Path
import sys
from benchmarks.crash.boundary import Boundaries, Kill
boundaries = Boundaries(Path(sys.argv[1]), Kill("here", 2))
for name in ("here", "there", "here", "never"):
    boundaries.reach(name)
"""


def test_a_process_is_killed_at_the_boundary_and_has_told_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "seen")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "seen").read_text().split() == ["here", "there", "here"]


def test_the_server_is_stuck_until_its_restart_command_has_run(tmp_path: Path) -> None:
    with World("gpu-1", tmp_path, ["http://127.0.0.1:1"], Random(1)) as world:
        before = requests.get(f"{world.url}/metrics", timeout=5).text
        assert requests.get(f"{world.url}/metrics", timeout=5).text == before
        assert world.restarts == []
        for _ in range(2):
            subprocess.run(
                world.command,
                env=os.environ | {"LIFEGUARD_BACKEND": "gpu-1"},
                check=True,
                timeout=20,
            )
        assert len(world.restarts) == 2
        assert requests.get(f"{world.url}/metrics", timeout=5).text != before
        assert requests.post(f"{world.url}/v1/completions", json={}, timeout=5).ok
        assert world.answered == 1
    assert world.acknowledged == 0


def test_nothing_is_done_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    side = Side(
        lambda folder: f"sqlite:///{folder / 'remediator.db'}", replicas=1, takeover_after="1s"
    )
    match = Match(tmp_path, side, seed=7)
    match.play(KILLS, at_once=5)
    assert match.kills >= KILLS
    assert [r for r in match.results if r.double or r.lost] == []
    assert sum(r.restarts for r in match.results) == len(match.results)
