"""Hands the families to Prometheus' client, one scrape at a time."""

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from gateway.families import Scrape, metrics
from gateway.office import Office


class GatewayCollector(Collector):
    """Builds every family anew for each scrape; belongs to the office's loop."""

    def __init__(self, office: Office, lag: Callable[[], float]) -> None:
        self._office = office
        self._lag = lag

    def describe(self) -> list[Metric]:
        """Nothing: there is nothing to register beforehand."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families as they stand now."""
        office = self._office
        return metrics(
            Scrape(
                counts=office.counts,
                standings=office.standings,
                in_flight=[request.model for request in office.in_flight.values()],
                ready=office.ready,
                ledger_lag=self._lag(),
                now=office.now(),
            )
        )
