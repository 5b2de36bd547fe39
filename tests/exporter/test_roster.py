"""Pollers come and go with who is to be watched; who stays loses nothing."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from exporter.memory import Memory, Snapshot
from exporter.roster import Roster
from exporter.schedule import NAME
from fleet.backend import Restart
from fleet.settings import ExporterSettings
from fleet.state import State
from fleet.way import Command
from tests.exporter.fleets import backend_at, snapshot
from tests.fleet.listeners import Connection, Handler, Listener, Vllm, eventually
from tests.fleet.watching import recorded

QUICK = ExporterSettings(interval=0.1, timeout=0.1, answer_every=None)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def roster(memory: Memory) -> Iterator[Roster]:
    roster = Roster(memory)
    yield roster
    roster.close(10.0)


def names(memory: Memory) -> list[str]:
    return [snapshot.backend.name for snapshot in memory.snapshots()]


def of(memory: Memory, name: str) -> Snapshot | None:
    return next((s for s in memory.snapshots() if s.backend.name == name), None)


def reads(memory: Memory, name: str = "gpu-a") -> int:
    one = of(memory, name)
    return 0 if one is None else sum(one.reads.values())


def not_running(roster: Roster) -> tuple[str, ...]:
    """Asked by a function, since a type checker takes a property to stay as it was."""
    return roster.not_running


OVER = threading.Event()


def hang(_: Connection) -> None:
    OVER.wait(30)


def drip(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n")
    while not OVER.wait(0.02):
        connection.send(b"#")


def flood(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    while not OVER.is_set():
        connection.send(b"#" * 65536)


@pytest.mark.parametrize(
    ("bad", "state"),
    [(hang, State.UNRESPONSIVE), (drip, State.UNRESPONSIVE), (flood, State.UNKNOWN)],
    ids=["hangs", "drips", "floods"],
)
def test_a_bad_server_holds_up_no_other(  # noqa: PLR0913, PLR0917 -- two servers and two watchers
    bad: Handler, state: State, memory: Memory, roster: Roster, vllm: Vllm, url: str
) -> None:
    settings = ExporterSettings(interval=0.4, timeout=0.4, answer_every=None)
    OVER.clear()
    with Listener(bad) as server:
        roster.apply((backend_at(server.url, name="bad"), backend_at(url, name="good")), settings)
        assert eventually(lambda: vllm.paths()["/metrics"] >= 10)
        states = {s.backend.name: s.judgement.backend.state for s in memory.snapshots()}
        late = {s.backend.name: s.late_seconds for s in memory.snapshots()}
        OVER.set()
        roster.close(10.0)
    assert states == {"bad": state, "good": State.BUSY}
    # A poll that another holds up begins an interval late, at least.
    assert late["good"] < settings.interval


def test_who_stays_keeps_counts_and_silence(memory: Memory, roster: Roster, url: str) -> None:
    stays = backend_at(url)
    roster.apply((stays,), QUICK)
    assert eventually(lambda: reads(memory) >= 5)
    before = of(memory, "gpu-a")
    only_for_the_remediator = replace(
        stays, load_time=1.0, restart=Restart(Command(("true",)), 1.0)
    )
    roster.apply((backend_at(url, name="gpu-b"), only_for_the_remediator), QUICK)
    assert eventually(lambda: reads(memory, "gpu-b") >= 1)
    after = of(memory, "gpu-a")
    assert before is not None
    assert after is not None
    assert reads(memory) >= sum(before.reads.values())
    assert after.history.engines["0"].quiet.seconds >= before.history.engines["0"].quiet.seconds > 0


def test_who_is_removed_vanishes_at_once_and_is_asked_no_more(
    memory: Memory, roster: Roster, vllm: Vllm, url: str
) -> None:
    roster.apply((backend_at(url), backend_at("http://127.0.0.1:9", name="gpu-b")), QUICK)
    assert eventually(lambda: sorted(names(memory)) == ["gpu-a", "gpu-b"])
    roster.apply((backend_at("http://127.0.0.1:9", name="gpu-b"),), QUICK)
    assert names(memory) == ["gpu-b"]
    before = reads(memory, "gpu-b")
    assert eventually(lambda: reads(memory, "gpu-b") >= before + 3)
    asked = vllm.paths()["/metrics"]
    before = reads(memory, "gpu-b")
    assert eventually(lambda: reads(memory, "gpu-b") >= before + 3)
    assert vllm.paths()["/metrics"] == asked
    assert names(memory) == ["gpu-b"]


def test_a_read_under_way_brings_nobody_back(memory: Memory, roster: Roster) -> None:
    slow = ExporterSettings(interval=30.0, timeout=30.0, answer_every=None)
    with Listener(lambda connection: connection.wait_until_closed()) as hanging:
        roster.apply((backend_at(hanging.url),), slow)
        assert eventually(lambda: hanging.connections == 1)
        roster.apply((), slow)
        hanging.close_connections()
        # A GET whose connection was lost is sent once more.
        assert eventually(lambda: hanging.connections == 2)
        hanging.close_connections()
        roster.close(10.0)
        assert not [t for t in threading.enumerate() if t.name == f"{NAME}-worker"]
    assert names(memory) == []


def test_a_changed_backend_is_another_one(memory: Memory, roster: Roster, url: str) -> None:
    roster.apply((backend_at(url),), QUICK)
    assert eventually(lambda: reads(memory) >= 3)
    roster.apply((backend_at(url + "/elsewhere"),), QUICK)
    assert eventually(lambda: reads(memory) >= 1)
    now = of(memory, "gpu-a")
    assert now is not None
    assert now.reads["ok"] == 0
    assert now.history.failure is not None


def test_changed_settings_hold_from_now_on_and_nothing_is_lost(
    memory: Memory, roster: Roster, url: str
) -> None:
    roster.apply((backend_at(url),), replace(QUICK, interval=3600.0))
    assert eventually(lambda: reads(memory) == 1)
    roster.apply((backend_at(url),), QUICK)
    seen = [1]

    def five_were_seen() -> bool:
        seen.append(reads(memory))
        return seen[-1] >= 5

    assert eventually(five_were_seen)
    assert seen == sorted(seen)
    roster.apply((backend_at(url),), replace(QUICK, interval=3600.0))
    # It began with a read, and the next is an hour away.
    assert eventually(lambda: reads(memory) > seen[-1])
    now = of(memory, "gpu-a")
    assert now is not None
    assert now.history.restarts == 0


def test_new_ones_are_spread_over_the_interval(memory: Memory, roster: Roster, url: str) -> None:
    settings = replace(QUICK, interval=3600.0)
    roster.apply(tuple(backend_at(url, name=name) for name in ("gpu-a", "gpu-b")), settings)
    assert eventually(lambda: names(memory) == ["gpu-a"])
    roster.apply(tuple(backend_at(url, name=n) for n in ("gpu-a", "gpu-b", "gpu-c")), settings)
    assert eventually(lambda: names(memory) == ["gpu-a", "gpu-c"])


def test_a_schedule_that_ended_is_named_and_begun_anew_with_the_next_change(
    memory: Memory, roster: Roster, url: str
) -> None:
    roster.apply((backend_at(url),), QUICK)
    assert not_running(roster) == ()
    roster.close(10.0)
    assert not_running(roster) == (NAME,)
    roster.apply((backend_at(url),), QUICK)
    assert not_running(roster) == ()
    assert eventually(lambda: reads(memory) >= 1)


def test_memory_takes_nothing_of_who_is_not_expected(memory: Memory) -> None:
    old = backend_at("http://127.0.0.1:8000")
    new = backend_at("http://127.0.0.1:8001")
    memory.put(snapshot(*recorded("idle"), backend=old))
    memory.expect([new])
    assert names(memory) == []
    memory.put(snapshot(*recorded("idle"), backend=old))
    assert names(memory) == []
    memory.put(snapshot(*recorded("idle"), backend=new))
    assert names(memory) == ["gpu-a"]
