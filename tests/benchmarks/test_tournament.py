"""The tournament's small size, and that its referee sees what there is to see."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tournament.event import Event, HangKind, Happening, Spec
from benchmarks.tournament.job import Pace
from benchmarks.tournament.match import play
from benchmarks.tournament.method import Method
from benchmarks.tournament.methods.chat import ChatWatchdog
from benchmarks.tournament.methods.counters import LastToken, StepsTwice, TokensForAMinute
from benchmarks.tournament.methods.health import HealthProbe
from benchmarks.tournament.methods.lifeguard import Lifeguard
from benchmarks.tournament.rounds import METHODS
from benchmarks.tournament.seen import REFUSED, TIMEOUT
from benchmarks.tournament.server import Server
from benchmarks.tournament.workload import WORKLOADS, servers
from fleet.fetch import Failure
from fleet.reading import EngineReading

ROOT = Path(__file__).parents[2]
RESULT = re.compile(
    r"RESULT lifeguard_false=(?P<false>[\d.]+) lifeguard_missed=(?P<missed>\d+) "
    r"lifeguard_busy_requests=(?P<busy>\d+) best_other_false=(?P<other>[\d.]+) "
    r"lifeguard_first_step_requests=(?P<unseen>\d+) hours=(?P<hours>\d+)"
)


@pytest.fixture(scope="module")
def printed() -> list[str]:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.tournament", "--size", "small"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return run.stdout.splitlines()


@pytest.fixture(scope="module")
def rows(printed: list[str]) -> dict[str, list[str]]:
    lines = [line.strip("| ").split("|") for line in printed if line.startswith("| ")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[2:]}


def test_the_last_line_is_the_result_and_says_what_the_table_says(
    printed: list[str], rows: dict[str, list[str]]
) -> None:
    match = RESULT.fullmatch(printed[-1])
    assert match is not None, printed[-1]
    false, missed, _, busy, unseen, _ = rows[Lifeguard.name]
    assert float(match["false"]) == pytest.approx(float(false), abs=0.05)
    assert match["missed"] == missed.split()[0]
    assert (match["busy"], match["unseen"]) == (busy, unseen)
    others = [float(row[0]) for name, row in rows.items() if not name.startswith(Lifeguard.name)]
    assert float(match["other"]) == pytest.approx(min(others), abs=0.06)
    assert int(match["hours"]) > 200


def test_every_method_has_a_row(rows: dict[str, list[str]]) -> None:
    assert {method().name for method in METHODS} < set(rows)


def test_ours_restarts_no_healthy_server_misses_no_hang_and_sends_busy_servers_nothing(
    printed: list[str],
) -> None:
    match = RESULT.fullmatch(printed[-1])
    assert match is not None
    assert float(match["false"]) == int(match["missed"]) == int(match["busy"]) == 0


def test_the_watchdog_of_the_incident_restarts_healthy_servers(rows: dict[str, list[str]]) -> None:
    assert float(rows[ChatWatchdog.name][0]) > 0
    assert int(rows[ChatWatchdog.name][3]) > int(rows[Lifeguard.name][3])


def quiet_server(*events: Event, hours: float = 2.0, ranks: int = 1) -> Spec:
    """A server on which nothing happens but these."""
    pace = Pace(prefill_tokens_per_second=1000.0)
    return Spec("s", "w", 7, hours, pace, events, ranks=ranks)


def requests(every: float, hours: float, target: int = 200, prompt: int = 500) -> list[Event]:
    number = int(hours * 3600 / every)
    return [
        Event(i * every, Happening.REQUEST, prompt=prompt, target=target) for i in range(number)
    ]


def full_for_hours() -> Spec:
    return quiet_server(*[Event(60.0, Happening.REQUEST, prompt=500, target=19_000)] * 64, hours=3)


def test_a_batch_that_fills_the_slots_is_restarted_by_the_chat_watchdog_and_not_by_us() -> None:
    score, _ = play(full_for_hours(), ChatWatchdog)
    assert score.false.total() > 0
    assert score.killed > 0
    assert score.sent_to_busy >= 5
    score, _ = play(full_for_hours(), Lifeguard)
    assert (score.false.total(), score.sent_to_busy) == (0, 0)


# Five minutes in which only KV usage moves.
LONG_PREFILL = (
    Event(10.0, Happening.REQUEST, prompt=10, target=10),
    Event(1800.0, Happening.REQUEST, prompt=300_000, target=5),
)


def only_steps(engine: EngineReading) -> EngineReading:
    """A page on which nothing moves but the iteration count and what runs."""
    return EngineReading(
        running=engine.running,
        kv_usage=0.5,
        steps=engine.steps,
        awake=engine.awake,
    )


def test_ours_sabotaged_to_count_only_steps_is_caught() -> None:
    spec = quiet_server(*LONG_PREFILL)
    score, alerts = play(spec, lambda: Lifeguard(sees=only_steps))
    assert score.false.total() > 0
    assert alerts.false.total() >= score.false.total()
    score, alerts = play(spec, Lifeguard)
    assert (score.false.total(), alerts.false.total()) == (0, 0)


def test_a_long_step_that_goes_on_after_a_long_pause_is_no_hang() -> None:
    events = (
        Event(1700.0, Happening.REQUEST, prompt=500, target=19_000),
        Event(1795.0, Happening.COMPILE, seconds=90.0),
        Event(1800.0, Happening.PAUSE, seconds=450.0),
    )
    spec = quiet_server(*events)._replace(developer_mode=True)
    score, _ = play(spec, Lifeguard)
    assert score.false.total() == 0


@pytest.mark.parametrize("kind", HangKind)
def test_what_ours_finds(kind: HangKind) -> None:
    hang = Event(1800.0, Happening.HANG, hang=kind)
    spec = quiet_server(*requests(120.0, 2.0), hang, ranks=2 if kind is HangKind.ONE_RANK else 1)
    score, alerts = play(spec, Lifeguard)
    assert score.hangs == {kind: 1}
    assert score.false.total() == alerts.false.total() == 0
    assert score.missed.total() == 0
    assert score.seconds[0] < (1200 if kind is HangKind.AFTER_RESTART else 420)
    # A loop that lives shows every request that joins the queue: it is starved, and a person knows.
    # A process younger than the cool-down is a person's, too.
    by_a_person = (HangKind.DEADLOCK_ARRIVALS, HangKind.AFTER_RESTART)
    assert score.told == (kind in by_a_person)


@pytest.mark.parametrize(
    ("method", "event"),
    [
        (HealthProbe, Event(600.0, Happening.API_GC, seconds=40.0)),
        (TokensForAMinute, LONG_PREFILL[1]),
        (StepsTwice, Event(600.0, Happening.REQUEST, prompt=500, target=5, deferred=600.0)),
        (LastToken, LONG_PREFILL[1]),
    ],
)
def test_what_makes_the_others_restart_a_healthy_server(method: type[Method], event: Event) -> None:
    before = Event(10.0, Happening.REQUEST, prompt=10, target=10)
    score, _ = play(quiet_server(before, event), method)
    assert score.false.total() > 0
    score, alerts = play(quiet_server(before, event), Lifeguard)
    assert score.false.total() == alerts.false.total() == 0


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_nobody_restarts_a_server_that_decodes_and_idles_without_trouble(
    method: type[Method],
) -> None:
    score, _ = play(quiet_server(*requests(90.0, 2.0)), method)
    assert score.false.total() == 0
    assert score.healthy_hours == 2


def test_a_restart_has_consequences_for_the_world_of_whoever_called_it() -> None:
    server = Server(quiet_server(Event(10.0, Happening.REQUEST, prompt=10, target=4000)))
    server.catch_up(20.0)
    server.restart(30.0)
    assert server.lost == 1
    assert server.metrics(40.0, 5.0) == REFUSED
    page = server.metrics(30.0 + 120.0, 5.0)
    assert not isinstance(page, Failure)
    assert page.engines["0"].generation_tokens == 0
    assert not server.engines[0].busy


def test_an_api_process_that_is_busy_answers_late_or_not_in_time() -> None:
    server = Server(quiet_server(Event(100.0, Happening.API_GC, seconds=40.0)))
    assert server.health(99.0, 5.0) is None
    assert server.health(101.0, 5.0) == TIMEOUT
    assert server.health(136.0, 5.0) is None


def test_the_same_seed_makes_the_same_servers_and_another_seed_others() -> None:
    number = len(WORKLOADS)
    assert servers(1, number, 2.0) == servers(1, number, 2.0)
    assert servers(1, number, 2.0) != servers(2, number, 2.0)


def test_carried_over_pages_go_on_where_the_predecessor_stopped() -> None:
    spec = quiet_server(Event(10.0, Happening.REQUEST, prompt=10, target=4000))
    server = Server(spec._replace(has_start_time=False, wiped=False))
    before = server.metrics(60.0, 5.0)
    server.restart(60.0)
    after = server.metrics(200.0, 5.0)
    assert not isinstance(after, Failure)
    assert after == before
    assert after.start_time is None
    assert after.engines["0"].running == 1
    assert not server.engines[0].busy
