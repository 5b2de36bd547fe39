"""Inputs from public reports and measurements, and the verdict that is right for each."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.fetch import Failure
from fleet.judgement import WAITS_OF_PROOF, WAITS_OF_STARVATION
from fleet.reading import Reading
from fleet.state import State
from tests.fleet.pages import page
from tests.fleet.watching import REFUSED, TIMEOUT, Step, watch

CASES = yaml.safe_load((Path(__file__).parents[1] / "fixtures/cases/judgement.yml").read_text())
READ_CASES = [case for case in CASES if "reads" in case or "engines" in case]
WAIT = 60.0

# The cases' short names, as tests.fleet.pages has them.
NAMES = {
    "r": "running",
    "w": "waiting",
    "cap": "capacity",
    "def": "deferred",
    "kv": "kv",
    "steps": "steps",
    "gen": "generated",
    "prompt": "prompt",
    "awake": "awake",
}


def unrolled(reads: list[Mapping[str, Any]]) -> Iterator[dict[str, float] | Failure]:
    """Each read in full: keys not given stay, ``x: N`` stands for N reads."""
    known: dict[str, float] = {}
    for read in reads:
        for failure, kind in (("refused", REFUSED), ("timeout", TIMEOUT)):
            yield from [kind] * read.get(failure, 0)
        if "empty" in read:
            yield from [{} for _ in range(read["empty"])]
        values = {key: value for key, value in read.items() if key in NAMES or key == "start"}
        if values or "x" in read:
            known = {**known, **values}
            yield from [known] * read.get("x", 1)


def page_of(engines: Mapping[str, Mapping[str, float]]) -> str:
    start = next((values["start"] for values in engines.values() if "start" in values), None)
    series = {
        engine: {NAMES[key]: value for key, value in values.items() if key != "start"}
        for engine, values in engines.items()
    }
    return page(series, start)


def results(case: Mapping[str, Any]) -> Iterator[Reading | Failure]:
    by_engine = case.get("engines") or {"0": case["reads"]}
    for moment in zip(*(list(unrolled(reads)) for reads in by_engine.values()), strict=True):
        failure = next((read for read in moment if isinstance(read, Failure)), None)
        pages = [read for read in moment if not isinstance(read, Failure)]
        yield failure or Reading.from_page(page_of(dict(zip(by_engine, pages, strict=False))))


def alerts(step: Step) -> set[str]:
    """The engine alerts that hold, by the same arithmetic as rules/alerts.yml."""
    if step.history.failure is not None:
        return set()
    fired = set()
    for engine in step.history.engines.values():
        if engine.quiet.seconds >= WAITS_OF_PROOF * WAIT:
            fired.add("VLLMEngineStuck")
        elif engine.quiet.seconds >= WAIT:
            fired.add("VLLMEngineQuiet")
        if engine.starved.seconds >= WAITS_OF_STARVATION * WAIT:
            fired.add("VLLMEngineStarved")
    return fired


@pytest.mark.parametrize("case", READ_CASES, ids=[case["id"] for case in READ_CASES])
def test_the_verdict_of_each_reported_case_is_right(case: Mapping[str, Any]) -> None:
    expect = case["expect"]
    steps = list(watch(results(case), wait=WAIT))
    last = steps[-1]
    if "state" in expect:
        assert last.judgement.backend.state == expect["state"], last.judgement.backend.why
    if "engines" in case:
        assert {name: v.state for name, v in last.judgement.engines.items()} == expect
    if "not" in expect:
        assert last.judgement.backend.state != expect["not"]
    if "fires" in expect:
        assert expect["fires"] in alerts(last)
    never = expect.get("never", [])
    for step in steps:
        assert alerts(step).isdisjoint([never] if isinstance(never, str) else never)


@pytest.mark.parametrize("case", READ_CASES, ids=[case["id"] for case in READ_CASES])
def test_every_sentence_begins_with_its_state(case: Mapping[str, Any]) -> None:
    for step in watch(results(case), wait=WAIT):
        for verdict in (step.judgement.backend, *step.judgement.engines.values()):
            assert verdict.why.startswith(f"{verdict.state}: ")
            assert verdict.state in State
