"""The engine that leaps writes what ``demo.vllm``'s engine writes, at the same times."""

from dataclasses import replace
from random import Random

import pytest

from benchmarks.tournament.engine import Engine
from benchmarks.tournament.job import Job, Pace
from benchmarks.tournament.page import text
from benchmarks.tournament.simulated import SimulatedEngine
from fleet.reading import EngineReading, Reading

# Times that no step ends at exactly, where the last bit of a sum would decide.
LOOKS = [0.013 + 2.74 * i for i in range(150)]
PACES = {
    "decoding": Pace(4, 1024, 16, 4000, 20.0, 4000.0),
    "long prefills": Pace(4, 1024, 16, 4000, 20.0, 800.0),
    "coarse blocks": Pace(2, 256, 1024, 64, 8.0, 150.0),
    "slow decoding": Pace(2, 1024, 16, 4000, 0.7, 300.0),
}

Either = Engine | SimulatedEngine
Pair = tuple[Either, Either]


def pair(pace: Pace) -> Pair:
    return Engine(pace), SimulatedEngine(pace)


def submit(engines: Pair, name: str, prompt: int, target: int, at: float) -> tuple[Job, Job]:
    jobs = Job(name, prompt, target), Job(name, prompt, target)
    for engine, job in zip(engines, jobs, strict=True):
        engine.submit(job, at)
    return jobs


def written(engine: Either, at: float) -> EngineReading:
    engine.advance(at)
    return engine.reading(gauges_absent=False, reasons=True)


def told(reading: EngineReading) -> EngineReading:
    """``demo.vllm`` lets nobody wait for something outside the engine, sums are rounded."""
    return replace(
        reading,
        waiting_deferred=0.0,
        awake=True,
        flops=None,
        kv_usage=round(reading.kv_usage or 0.0, 12),
    )


def same(engines: Pair, at: float) -> None:
    leaps, steps = (told(written(engine, at)) for engine in engines)
    assert leaps == steps, at


@pytest.mark.parametrize("name", PACES)
def test_pages_are_the_same_at_the_same_times(name: str) -> None:
    rng = Random(name)
    engines = pair(PACES[name])
    longest = 1500 if name == "slow decoding" else 9000
    events = []
    for i in range(25):
        at = rng.uniform(0, 300)
        events.append((at, i, rng.randint(1, longest), rng.randint(1, 400)))
    for at, i, prompt, target in sorted(events):
        jobs = submit(engines, f"r{i}", prompt, target, at)
        if rng.random() < 0.4:
            gone = at + rng.uniform(0.5, 60)
            for engine, job in zip(engines, jobs, strict=True):
                engine.abort(job, gone)
    pages = set()
    for at in LOOKS:
        same(engines, at)
        pages.add(engines[0].reading(gauges_absent=False, reasons=True))
        assert engines[0].busy == engines[1].busy
    assert len(pages) > 50


def test_pauses_long_steps_and_freezes_are_the_same() -> None:
    engines = pair(PACES["decoding"])
    for engine in engines:
        engine.compile(70.0)
    submit(engines, "a", 2000, 1500, 1.0)
    acts = {30: "compile", 55: "pause", 80: "freeze", 100: "thaw", 125: "freeze"}
    for i, at in enumerate(LOOKS):
        same(engines, at)
        for engine in engines:
            match acts.get(i):
                case "pause":
                    engine.pause(40.0, at)
                case "compile":
                    engine.compile(33.0)
                case "freeze":
                    engine.freeze(at)
                case "thaw":
                    engine.thaw(at)
                case _:
                    pass
    assert written(engines[0], 10_000.0) == written(engines[0], LOOKS[-1])


def test_an_engine_that_preempts_goes_on_and_ends() -> None:
    engine = Engine(Pace(8, 1024, 16, 60, 20.0, 4000.0))
    jobs = [Job(f"r{i}", 100, 400) for i in range(6)]
    for job in jobs:
        engine.submit(job, 0.0)
    engine.advance(1000.0)
    assert all(job.done_at is not None for job in jobs)
    page = written(engine, 1000.0)
    assert page.preemptions is not None
    assert page.preemptions > 5
    assert page.generation_tokens == 2400
    assert (page.running, page.waiting, page.kv_usage) == (0, 0, 0)


def test_what_waits_for_something_outside_is_not_waiting_for_capacity() -> None:
    engine = Engine(Pace())
    engine.submit(Job("a", 100, 10, deferred=60.0), 1.0)
    page = written(engine, 30.0)
    assert (page.waiting, page.waiting_capacity, page.waiting_deferred) == (1, 0, 1)
    assert written(engine, 59.0) == page
    assert written(engine, 70.0).generation_tokens == 10


def test_an_older_release_keeps_its_gauges_until_the_next_step() -> None:
    for keeps, running in ((True, 2), (False, 0)):
        engine = Engine(Pace(), keeps_gauges=keeps)
        for name in ("a", "b"):
            job = Job(name, 100, 4000)
            engine.submit(job, 0.0)
            engine.abort(job, 10.0)
        assert written(engine, 60.0).running == running
        assert not engine.busy
        engine.submit(Job("c", 100, 1), 100.0)
        assert written(engine, 110.0).running == 0


def test_the_text_of_a_page_gives_the_reading() -> None:
    engine = Engine(Pace())
    engine.submit(Job("a", 100, 4000), 0.0)
    reading = Reading(17.0, {"0": written(engine, 30.0), "1": EngineReading(steps=3.0)})  # type: ignore[arg-type]
    assert Reading.from_page(text(reading)) == reading
