"""Values for tests: each with every field set to something sensible, to be changed by name."""

# ruff: noqa: ANN401 -- fields are changed by name

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleet.backend import Backend, Kind, Restart
from fleet.reading import EngineReading, Reading
from fleet.settings import ExporterSettings, Mode, RemediatorSettings, Settings
from fleet.way import Command
from remediator.case import AlertState, Case, Standing
from remediator.incident import Attempt, AttemptState, Incident, IncidentState
from remediator.notification import Alert, Status, Symptom
from remediator.proof import Proof, Request, Saw, Sight

T0 = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
START = T0.timestamp() - 86400  # the backend's process was started a day before


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def limits(**changed: Any) -> RemediatorSettings:
    standard = RemediatorSettings(
        mode=Mode.ACT,
        token_file=Path("token"),
        database="",
        alertmanager="http://127.0.0.1:9093",
        confirm_for=15.0,
        answer_within=30.0,
        recheck_every=30.0,
        cool_down=900.0,
        fleet_restarts=3,
        fleet_window=3600.0,
    )
    return replace(standard, **changed)


def backend(name: str = "gpu-a", **changed: Any) -> Backend:
    standard = Backend(
        name=name,
        url="http://127.0.0.1:1",
        kind=Kind.VLLM,
        wait=60.0,
        load_time=600.0,
        restart=Restart(Command(("true",)), 10.0),
    )
    return replace(standard, **changed)


def settings(*backends: Backend, **changed: Any) -> Settings:
    return Settings(
        file=Path("fleet.yml"),
        backends=backends or (backend(),),
        exporter=ExporterSettings(interval=15.0, timeout=5.0, answer_every=None),
        remediator=limits(**changed),
    )


def alert(**changed: Any) -> Alert:
    standard = Alert(
        status=Status.FIRING,
        fingerprint="7bdcfff547bc4d61",
        starts_at=T0,
        ends_at=None,
        alertname="VLLMEngineStuck",
        backend="gpu-a",
        engine="0",
        remediate="restart",
        symptom=Symptom.STUCK,
    )
    return replace(standard, **changed)


def incident(**changed: Any) -> Incident:
    standard = Incident(
        id=1,
        fingerprint="7bdcfff547bc4d61",
        starts_at=T0,
        ends_at=None,
        alertname="VLLMEngineStuck",
        backend="gpu-a",
        engine="0",
        remediate="restart",
        symptom=Symptom.STUCK,
        state=IncidentState.OPEN,
        opened_at=at(1),
        heard_at=at(1),
        next_look_at=at(1),
    )
    return replace(standard, **changed)


def attempt(state: AttemptState = AttemptState.RECOVERED, **changed: Any) -> Attempt:
    """An attempt on gpu-a that acted as soon as it was planned, unless it is still planned."""
    planned_at = changed.get("planned_at", at(-5000))
    standard = Attempt(
        id=7,
        incident_id=99,
        backend="gpu-a",
        engine="0",
        mode=Mode.ACT,
        state=state,
        planned_at=planned_at,
        acting_at=None if state is AttemptState.PLANNED else planned_at,
    )
    return replace(standard, **changed)


def engine(**changed: Any) -> EngineReading:
    standard = EngineReading(
        running=3.0, waiting=0.0, kv_usage=0.25, steps=4214.0, generation_tokens=13424.0, awake=True
    )
    return replace(standard, **changed)


def reading(start_time: float | None = START, **engines: EngineReading) -> Reading:
    """``reading(e0=engine(), e1=engine())``; without engines it has engine 0."""
    named = {name.removeprefix("e"): value for name, value in engines.items()}
    return Reading(start_time, MappingProxyType(named or {"0": engine()}))


STILL = Saw(Sight.STILL, "engine 0 wrote nothing new")


def proof(**changed: Any) -> Proof:
    """What proves a hang: nothing moved for long enough, and no answer."""
    standard = Proof(
        at=at(100),
        seconds=31.0,
        saw=STILL,
        dead=False,
        request=Request.UNANSWERED,
        request_why="not answered within 30 s",
        reading=reading(),
    )
    return replace(standard, **changed)


ACTIVE = Standing(AlertState.ACTIVE, "the alert is active in Alertmanager", T0)


def case(**changed: Any) -> Case:
    """An incident that nothing stands against."""
    standard = Case(incident(), backend(), (), ACTIVE, limits())
    return replace(standard, **changed)
