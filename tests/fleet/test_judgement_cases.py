"""Inputs from public reports and measurements, and the verdict that is right for each."""

from collections.abc import Mapping
from typing import Any

import pytest

from fleet.judgement import WAITS_OF_PROOF, WAITS_OF_STARVATION
from fleet.state import State
from tests.fleet.cases import READ_CASES, WAIT, results
from tests.fleet.watching import Step, watch


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
