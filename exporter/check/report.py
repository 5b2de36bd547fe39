"""What a check says: sentences for people, JSON for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exporter.check.conclusion import Outcome
from exporter.check.look import Found
from exporter.memory import Snapshot
from fleet.backend import Backend

SAID = {
    Outcome.HEALTHY: "healthy",
    Outcome.PROVEN: "PROVEN STUCK OR DEAD",
    Outcome.CANNOT_JUDGE: "cannot be judged",
    Outcome.UNDECIDED: "nothing is proven against it so far",
}


def as_json(backends: Sequence[Backend], found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """One object a backend; ``quiet_seconds`` as the metric of that name."""
    return [_one(backend, found[backend.name]) for backend in backends]


def _one(backend: Backend, found: Found) -> dict[str, Any]:
    judgement = found.snapshot.judgement
    engines = found.snapshot.history.engines
    return {
        "url": backend.url,
        "outcome": found.outcome.value,
        "state": judgement.backend.state,
        "why": judgement.backend.why,
        "engines": [
            {
                "engine": name,
                "state": verdict.state,
                "why": verdict.why,
                "quiet_seconds": round(engines[name].quiet.seconds, 1),
            }
            for name, verdict in judgement.engines.items()
        ],
    }


def lines(backends: Sequence[Backend], found: Mapping[str, Found]) -> Iterator[str]:
    """One line a backend, and one an engine."""
    for backend in backends:
        result = found[backend.name]
        yield f"{backend.url}: {SAID[result.outcome]}"
        yield from (f"  {line}" for line in sentences(result.snapshot))


def sentences(snapshot: Snapshot) -> Iterator[str]:
    """Why, for each engine, or for the backend where its engines could not be read."""
    judgement = snapshot.judgement
    if not judgement.engines:
        yield judgement.backend.why
    for name, verdict in judgement.engines.items():
        yield f"engine {name} {verdict.why}"
