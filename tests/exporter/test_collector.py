"""The exposition: names, labels, values, and what is left out of it."""

import shutil
import subprocess
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, generate_latest

from exporter.collector import FleetCollector
from exporter.families import COLLECT_ERRORS, FAMILIES, NAMES, Scrape
from exporter.memory import Memory, Snapshot
from exporter.standing import SourceStanding, Standing
from fleet.family import GAUGE, Family, registry
from fleet.reading import Reading
from fleet.state import State
from tests.exporter.fleets import SETTINGS, Clock, backend_at, snapshot
from tests.fleet.pages import BUSY, page
from tests.fleet.watching import REFUSED, recorded

BACKEND = backend_at("http://127.0.0.1:8000")
STANDING = Standing(
    SETTINGS,
    ("gpu-a", "gpu-b", "gpu-c"),
    (SourceStanding("dns", backends=2, failures=5, has_looked=True),),
    reload_succeeded=False,
    reloaded_at=1.7e9,
)
BUSY_PAGES = recorded("busy-decode")


def exposed(*snapshots: Snapshot, now: float = 1000.0) -> CollectorRegistry:
    memory, clock = Memory(), Clock()
    for one in snapshots:
        memory.put(one)
    clock.now = now
    return registry(FleetCollector(memory, lambda: STANDING, monotonic=clock))


def value(of: CollectorRegistry, name: str, **labels: str) -> float | None:
    return of.get_sample_value(name, labels)


def test_the_page_passes_promtool() -> None:
    promtool = shutil.which("promtool")
    assert promtool, "install Debian's package prometheus"
    page_ = generate_latest(exposed(snapshot(*BUSY_PAGES, backend=BACKEND)))
    done = subprocess.run(
        [promtool, "check", "metrics"], input=page_, check=False, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_contract_names_exactly_what_is_exposed() -> None:
    asked = Reading.from_page(page({"0": BUSY}, 1.0))
    seen: dict[str, set[tuple[str, ...]]] = {}
    for metric in exposed(snapshot(asked, asked, backend=BACKEND)).collect():
        for sample in metric.samples:
            seen.setdefault(sample.name, set()).add(tuple(sample.labels))
    contract: Mapping[str, tuple[str, ...]] = {
        name: labels for name, labels in NAMES.items() if name != "vllm_backend_answer_seconds"
    }
    assert {name: next(iter(labels)) for name, labels in seen.items()} == contract
    assert all(len(labels) == 1 for labels in seen.values())


def test_values_come_from_the_last_reading_and_the_step_before() -> None:
    of = exposed(snapshot(*BUSY_PAGES, backend=BACKEND))
    labels = {"backend": "gpu-a", "engine": "0"}
    assert value(of, "vllm_engine_steps_total", **labels) == 635
    assert value(of, "vllm_engine_step_rate", **labels) == (635 - 435) / 15
    assert value(of, "vllm_engine_requests_running", **labels) == 3
    assert value(of, "vllm_backend_up", backend="gpu-a") == 1
    assert value(of, "vllm_backend_wait_seconds", backend="gpu-a") == 60


def test_what_is_watched_and_why_is_shown() -> None:
    of = exposed()
    assert value(of, "vllm_exporter_backends") == 3
    assert value(of, "vllm_exporter_discovered_backends", source="dns") == 2
    assert value(of, "vllm_exporter_discovery_failures_total", source="dns") == 5
    assert value(of, "vllm_exporter_config_last_reload_successful") == 0
    at = value(of, "vllm_exporter_config_last_reload_success_timestamp_seconds")
    assert at == 1.7e9


def test_exactly_one_state_is_one() -> None:
    of = exposed(snapshot(*BUSY_PAGES, backend=BACKEND))
    states = {s: value(of, "vllm_backend_state", backend="gpu-a", state=s) for s in State}
    assert [state for state, number in states.items() if number == 1] == [State.BUSY]
    assert len(states) == len(State)


def test_a_backend_that_fails_is_not_up_and_its_engines_vanish_in_time() -> None:
    down = snapshot(*BUSY_PAGES, REFUSED, REFUSED, REFUSED, backend=BACKEND)
    of = exposed(down)
    assert value(of, "vllm_backend_up", backend="gpu-a") == 0
    assert value(of, "vllm_backend_state", backend="gpu-a", state="down") == 1
    assert value(of, "vllm_engine_steps_total", backend="gpu-a", engine="0") is None
    once = exposed(snapshot(*BUSY_PAGES, REFUSED, backend=BACKEND))
    assert value(once, "vllm_engine_steps_total", backend="gpu-a", engine="0") == 635


def test_a_backend_that_is_polled_no_more_vanishes() -> None:
    one = snapshot(*BUSY_PAGES, backend=BACKEND)
    limit = 2 * SETTINGS.interval + SETTINGS.timeout
    assert value(exposed(one, now=1000.0 + limit), "vllm_backend_up", backend="gpu-a") == 1
    gone = exposed(one, now=1000.1 + limit)
    assert value(gone, "vllm_backend_up", backend="gpu-a") is None
    assert value(gone, "vllm_exporter_backends") == 3


def test_a_restart_is_shown_for_one_wait() -> None:
    pages = [Reading.from_page(page({"0": BUSY}, start)) for start in (1.0, 2.0)]
    one = snapshot(*pages, backend=BACKEND)
    assert value(exposed(one), "vllm_backend_restarts_total", backend="gpu-a") == 1
    assert value(exposed(one), "vllm_backend_restart_detected", backend="gpu-a") == 1
    still = snapshot(*pages, *[pages[1]] * 5, backend=BACKEND)
    assert value(exposed(still), "vllm_backend_restart_detected", backend="gpu-a") == 0


def test_a_family_that_fails_is_left_out_and_counted() -> None:
    def broken(_: Scrape) -> list[tuple[tuple[str, ...], float]]:
        raise ValueError("a bug")

    bad = Family("vllm_exporter_broken", GAUGE, "Breaks.", (), broken)
    memory = Memory()
    memory.put(snapshot(*BUSY_PAGES, backend=BACKEND))
    own = registry(
        FleetCollector(memory, lambda: STANDING, monotonic=Clock(), families=(bad, *FAMILIES))
    )
    assert value(own, "vllm_backend_up", backend="gpu-a") == 1
    # Looking at a value is a scrape too.
    assert value(own, COLLECT_ERRORS, family="vllm_exporter_broken") == 2
