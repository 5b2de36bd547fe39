"""Hands the families to Prometheus' client, one scrape at a time."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from exporter.families import COLLECT_ERRORS, FAMILIES, Scrape
from exporter.memory import Memory
from exporter.standing import Standing
from fleet.family import Family

log = logging.getLogger(__name__)


class FleetCollector(Collector):
    """Builds every family anew for each scrape. A family that fails is left out and counted.

    Series of a backend vanish when its last poll is older than two intervals and a read, so that
    nothing stale is ever judged; the rules see the gap.
    """

    def __init__(
        self,
        memory: Memory,
        standing: Callable[[], Standing],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        families: Sequence[Family[Scrape]] = FAMILIES,
    ) -> None:
        self._memory = memory
        self._standing = standing
        self._monotonic = monotonic
        self._families = families
        self._lock = threading.Lock()
        self._errors = dict.fromkeys((family.name for family in families), 0)

    def describe(self) -> list[Metric]:
        """Nothing: registering must not poll."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families as they stand now."""
        now = self._monotonic()
        standing = self._standing()
        intervals = 2 * standing.settings.interval + standing.settings.timeout
        young = [s for s in self._memory.snapshots() if now - s.polled_at <= intervals]
        scrape = Scrape(young, now, intervals, standing)
        for family in self._families:
            try:
                metric = family.metric(scrape)
            except Exception:
                log.exception("event=collect_failed family=%s", family.name)
                with self._lock:
                    self._errors[family.name] += 1
            else:
                yield metric
        errors = CounterMetricFamily(
            COLLECT_ERRORS,
            "Scrapes in which a family could not be built and was left out.",
            labels=("family",),
        )
        for name, count in self._errors.items():
            errors.add_metric((name,), count)
        yield errors
