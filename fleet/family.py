"""A metric family as a value: its names are the public API, its samples are made per scrape."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

Value = tuple[tuple[str, ...], float]
Scraped = TypeVar("Scraped")


class Type(StrEnum):
    """A family's type in the exposition format."""

    GAUGE = "gauge"
    COUNTER = "counter"


GAUGE, COUNTER = Type.GAUGE, Type.COUNTER


@dataclass(frozen=True)
class Family(Generic[Scraped]):
    """One metric family; ``values`` yields label values, ordered as ``labels``, and a value.

    ``Scraped`` is what a program makes its families of, one for each scrape.
    """

    name: str
    type: Type
    help: str
    labels: tuple[str, ...]
    values: Callable[[Scraped], Iterable[Value]]

    def metric(self, scrape: Scraped) -> Metric:
        """The family filled in for one scrape."""
        make = CounterMetricFamily if self.type is Type.COUNTER else GaugeMetricFamily
        family = make(self.name, self.help, labels=self.labels)
        for labels, value in self.values(scrape):
            family.add_metric(labels, value)
        return family


def registry(collector: Collector) -> CollectorRegistry:
    """A registry of our own, with this collector and nothing global in it."""
    own = CollectorRegistry()
    own.register(collector)
    return own
