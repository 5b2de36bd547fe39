"""Hands the families to Prometheus' client, one scrape at a time."""

import logging
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from fleet.settings import Mode
from remediator.attempts import Attempts
from remediator.database import StorageError
from remediator.families import FAMILIES, Remembered, Scrape
from remediator.journal import Journal, line

log = logging.getLogger("remediator")


class RemediatorCollector(Collector):
    """Builds every family anew for each scrape; what the database cannot tell is left out."""

    def __init__(
        self, mode: Mode, backends: tuple[str, ...], attempts: Attempts, journal: Journal
    ) -> None:
        self._mode = mode
        self._backends = backends
        self._attempts = attempts
        self._journal = journal

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families as they stand now."""
        scrape = Scrape(
            mode=self._mode,
            backends=self._backends,
            notifications=self._journal.notifications(),
            decisions=self._journal.decisions(),
            remembered=self._remembered(),
            truncated=self._journal.truncated_alerts(),
        )
        for family in FAMILIES:
            yield family.metric(scrape)

    def _remembered(self) -> Remembered | None:
        try:
            return Remembered(
                open_incidents=self._attempts.open_incidents(),
                under_way=len(self._attempts.under_way()),
                attempts=self._attempts.attempt_counts(self._mode),
                restarts=self._attempts.restarts(),
            )
        except StorageError as error:
            log.warning("%s", line(event="collect_failed", why=error))
            return None
