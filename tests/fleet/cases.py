"""The judgement's cases, from public reports and measurements: reads, and the right verdict."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from fleet.fetch import Failure
from fleet.reading import Reading
from tests.fleet.pages import page
from tests.fleet.watching import REFUSED, TIMEOUT

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


def pages(case: Mapping[str, Any]) -> Iterator[str | Failure]:
    """What each read of the case met with: a page, or why there was none."""
    by_engine = case.get("engines") or {"0": case["reads"]}
    for moment in zip(*(list(unrolled(reads)) for reads in by_engine.values()), strict=True):
        failure = next((read for read in moment if isinstance(read, Failure)), None)
        shown = [read for read in moment if not isinstance(read, Failure)]
        yield failure or page_of(dict(zip(by_engine, shown, strict=False)))


def results(case: Mapping[str, Any]) -> Iterator[Reading | Failure]:
    for met in pages(case):
        yield met if isinstance(met, Failure) else Reading.from_page(met)
