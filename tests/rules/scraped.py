"""What a Prometheus that scrapes vLLM itself stores of a scenario: its pages, and ``up``."""

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from fleet.fetch import Failure
from fleet.reading import NAMES
from tests.rules.scenarios import Scenario
from tests.rules.timeline import Key, key

JOB = "vllm"
WANTED = tuple(f"{name}{end}" for name in NAMES for end in ("{", " "))


def scrapes(scenario: Scenario) -> Iterator[dict[Key, float]]:
    """The samples of one scrape a poll. Lines that no rule names are left out for speed."""
    target = {"job": JOB, "instance": scenario.name}
    for met in scenario.met:
        if isinstance(met, Failure):
            yield {key("up", target): 0.0}
            continue
        lines = "".join(line for line in met.splitlines(keepends=True) if line.startswith(WANTED))
        yield {
            key("up", target): 1.0,
            **{
                key(sample.name, {**sample.labels, **target}): sample.value
                for family in text_string_to_metric_families(lines)
                for sample in family.samples
            },
        }
