import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from fleet.family import registry
from fleet.settings import Mode
from remediator.collector import RemediatorCollector
from remediator.database import StorageError
from remediator.decision import Reason
from remediator.families import FAMILIES, NAMES
from remediator.incident import ENDS
from remediator.journal import Received
from remediator.notification import Status
from tests.remediator.making import alert, at, backend, settings
from tests.remediator.stage import BACK, GONE, Stage

BACKENDS = ("gpu-a", "gpu-b")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, settings(*map(backend, BACKENDS), cool_down=10_000.0)) as one:
        yield one


def scraped(stage: Stage, mode: Mode = Mode.ACT) -> CollectorRegistry:
    return registry(RemediatorCollector(mode, BACKENDS, stage.store, stage.journal, stage.clock))


def value(stage: Stage, name: str, **labels: str) -> float | None:
    return scraped(stage).get_sample_value(name, labels)


def test_names_and_labels_are_the_public_ones() -> None:
    assert dict(NAMES) == {
        "remediator_mode": ("mode",),
        "remediator_notifications_total": ("result",),
        "remediator_truncated_alerts_total": (),
        "remediator_decisions_total": ("action", "reason"),
        "remediator_attempts_total": ("backend", "outcome"),
        "remediator_restarts_total": ("backend",),
        "remediator_foreign_restarts_total": ("backend",),
        "remediator_attempts_in_progress": (),
        "remediator_restart_under_way": ("backend",),
        "remediator_incidents_open": ("backend",),
        "remediator_held": ("backend", "reason"),
        "remediator_escalated": ("backend", "reason"),
        "remediator_storm": (),
        "remediator_holds": ("backend",),
        "remediator_given_up": ("backend",),
        "remediator_load_seconds": ("backend",),
        "remediator_shadow_outcomes_total": ("outcome",),
        "remediator_last_restart_timestamp_seconds": ("backend",),
        "remediator_build_info": ("version",),
    }


def test_promtool_has_nothing_against_the_page(stage: Stage) -> None:
    stage.tell(alert(), alert(backend="gpu-b", fingerprint="b", remediate=""))
    stage.pass_(100)
    page = generate_latest(scraped(stage))
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False, timeout=30
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_every_family_is_on_the_page(stage: Stage) -> None:
    page = generate_latest(scraped(stage)).decode()
    for family in FAMILIES:
        assert f"# HELP {family.name} " in page


def test_what_can_be_counted_is_there_at_zero(stage: Stage) -> None:
    for name in BACKENDS:
        assert value(stage, "remediator_restarts_total", backend=name) == 0
        assert value(stage, "remediator_incidents_open", backend=name) == 0
        assert value(stage, "remediator_restart_under_way", backend=name) == 0
        for end in ENDS:
            assert value(stage, "remediator_attempts_total", backend=name, outcome=end) == 0
    for result in Received:
        assert value(stage, "remediator_notifications_total", result=result) == 0
    assert value(stage, "remediator_decisions_total", action="hold", reason="silenced") == 0
    assert value(stage, "remediator_truncated_alerts_total") == 0
    assert value(stage, "remediator_storm") == 0
    assert value(stage, "remediator_foreign_restarts_total", backend="gpu-a") == 0
    assert value(stage, "remediator_attempts_in_progress") == 0
    assert value(stage, "remediator_last_restart_timestamp_seconds", backend="gpu-a") is None


def test_the_mode_is_one_hot(stage: Stage) -> None:
    shadow = scraped(stage, Mode.SHADOW)
    assert shadow.get_sample_value("remediator_mode", {"mode": "shadow"}) == 1
    assert shadow.get_sample_value("remediator_mode", {"mode": "act"}) == 0


def test_a_restart_from_its_beginning_to_its_end(stage: Stage) -> None:
    stage.witness.afterwards = GONE
    stage.tell()
    stage.pass_(120)
    assert value(stage, "remediator_attempts_in_progress") == 1
    assert value(stage, "remediator_restart_under_way", backend="gpu-a") == 1
    assert value(stage, "remediator_restart_under_way", backend="gpu-b") == 0
    assert value(stage, "remediator_restarts_total", backend="gpu-a") == 1
    begun = value(stage, "remediator_last_restart_timestamp_seconds", backend="gpu-a")
    assert begun == stage.all_attempts[0].acting_at.timestamp()  # type: ignore[union-attr]
    assert value(stage, "remediator_incidents_open", backend="gpu-a") == 1
    # What is being restarted is not held back.
    assert stage.incident.reason is Reason.UNDER_WAY
    assert value(stage, "remediator_held", backend="gpu-a", reason="under_way") is None
    stage.witness.afterwards = BACK
    stage.pass_(30)
    assert value(stage, "remediator_attempts_in_progress") == 0
    assert value(stage, "remediator_restart_under_way", backend="gpu-a") == 0
    assert value(stage, "remediator_attempts_total", backend="gpu-a", outcome="recovered") == 1
    assert value(stage, "remediator_decisions_total", action="restart", reason="stuck") == 1


def test_counts_of_attempts_survive_the_program(stage: Stage) -> None:
    stage.witness.afterwards = BACK
    stage.tell()
    stage.pass_(100)
    stage.kill_and_start()
    assert value(stage, "remediator_attempts_total", backend="gpu-a", outcome="recovered") == 1
    assert value(stage, "remediator_restarts_total", backend="gpu-a") == 1


def test_a_restart_that_is_planned_or_not_made_is_not_under_way(tmp_path: Path) -> None:
    with Stage(tmp_path, settings(*map(backend, BACKENDS), mode=Mode.SHADOW)) as stage:
        stage.tell()
        stage.pass_(120)
        assert value(stage, "remediator_attempts_in_progress") == 1
        assert value(stage, "remediator_restart_under_way", backend="gpu-a") == 0
        attempt = stage.all_attempts[0]
        planned = replace(attempt, mode=Mode.ACT, acting_at=None)
        stage.store.attempts.under_way = lambda: (planned,)  # type: ignore[method-assign]
        assert value(stage, "remediator_restart_under_way", backend="gpu-a") == 0


def test_a_restart_is_under_way_after_a_start_of_the_remediator_too(stage: Stage) -> None:
    stage.witness.afterwards = GONE
    stage.tell()
    stage.pass_(120)
    stage.kill_and_start()
    assert value(stage, "remediator_restart_under_way", backend="gpu-a") == 1


def test_what_is_held_is_shown_while_it_is_held(stage: Stage) -> None:
    stage.witness.afterwards = BACK
    stage.tell()
    stage.pass_(100)
    began = (stage.clock.now - at(0)).total_seconds()
    stage.tell(alert(starts_at=at(began)))
    stage.pass_(10)
    assert value(stage, "remediator_held", backend="gpu-a", reason="cooling_down") == 1
    resolved = alert(status=Status.RESOLVED, starts_at=at(began), ends_at=stage.clock.now)
    stage.tell(resolved)
    assert value(stage, "remediator_held", backend="gpu-a", reason="cooling_down") is None


def test_what_is_left_to_a_person_is_shown(tmp_path: Path) -> None:
    with Stage(tmp_path, settings(backend("gpu-a", restart=None))) as stage:
        stage.tell()
        stage.turn()
        held = value(stage, "remediator_escalated", backend="gpu-a", reason="cannot_restart")
        assert held == 1


def test_a_backend_that_is_gone_from_fleet_yml_has_no_series(stage: Stage) -> None:
    stage.tell()
    stage.pass_(70)
    own = registry(
        RemediatorCollector(Mode.ACT, ("gpu-z",), stage.store, stage.journal, stage.clock)
    )
    assert 'backend="gpu-a"' not in generate_latest(own).decode()


def test_a_database_that_cannot_be_read_costs_its_own_families_only(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> object:
        raise StorageError("locked")

    stage.store.attempts.restarts = broken  # type: ignore[assignment, method-assign]
    page = generate_latest(scraped(stage)).decode()
    assert 'remediator_mode{mode="act"} 1.0' in page
    assert "remediator_restarts_total{" not in page
    assert "event=collect_failed why=locked" in caplog.text
