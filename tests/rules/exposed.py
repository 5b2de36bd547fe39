"""What the exporter shows of a scenario, poll by poll, made by the exporter's own code."""

from collections.abc import Iterator

from exporter.collector import FleetCollector
from exporter.memory import READ_RESULTS, Memory, Snapshot
from exporter.standing import Standing
from fleet.answer import Result
from fleet.family import registry
from fleet.fetch import Failure
from fleet.reading import Reading
from tests.exporter.fleets import SETTINGS, Clock
from tests.fleet.cases import WAIT
from tests.fleet.watching import INTERVAL, backend, watch
from tests.rules.scenarios import Scenario
from tests.rules.timeline import Key, key

TARGET = {"job": "vllm-exporter", "instance": "exporter:9109"}
START = 1000.0
SCRAPED_AFTER = 1.0


def scrapes(scenario: Scenario) -> Iterator[dict[Key, float]]:
    """The samples of one scrape a poll, a second after it."""
    results = [met if isinstance(met, Failure) else Reading.from_page(met) for met in scenario.met]
    of = backend(WAIT, name=scenario.name)
    memory, clock = Memory(), Clock()
    standing = Standing(SETTINGS, (scenario.name,))
    shown = registry(FleetCollector(memory, lambda: standing, monotonic=clock))
    reads = dict.fromkeys(READ_RESULTS, 0)
    for i, (result, step) in enumerate(
        zip(results, watch(results, wait=WAIT, interval=INTERVAL, start=START), strict=True)
    ):
        reads[result.kind if isinstance(result, Failure) else "ok"] += 1
        polled_at = START + i * INTERVAL + 0.02
        memory.put(
            Snapshot(
                backend=of,
                history=step.history,
                judgement=step.judgement,
                polled_at=polled_at,
                since=polled_at,
                since_wall=1.7e9,
                read_seconds=0.02,
                late_seconds=0.0,
                reads=dict(reads),
                answers=dict.fromkeys(Result, 0),
            )
        )
        clock.now = polled_at + SCRAPED_AFTER
        yield {
            key(sample.name, {**sample.labels, **TARGET}): sample.value
            for metric in shown.collect()
            for sample in metric.samples
            if "backend" in sample.labels
        }
