"""Hands the families to Prometheus' client, one scrape at a time."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client import Metric
from prometheus_client.registry import Collector

from fleet.settings import Mode
from remediator.database import StorageError
from remediator.families import FAMILIES, Remembered, Scrape
from remediator.journal import Journal, line
from remediator.store import Store

log = logging.getLogger("remediator")


class RemediatorCollector(Collector):
    """Builds every family anew for each scrape; what the database cannot tell is left out."""

    def __init__(
        self,
        mode: Mode,
        backends: tuple[str, ...],
        store: Store,
        journal: Journal,
        clock: Callable[[], datetime],
    ) -> None:
        self._mode = mode
        self._backends = backends
        self._store = store
        self._journal = journal
        self._clock = clock

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
            now = self._clock()
            attempts, records = self._store.attempts, self._store.records
            return Remembered(
                open_incidents=self._store.incidents.open(),
                under_way=attempts.under_way(),
                attempts=attempts.counts(self._mode),
                restarts=attempts.restarts(),
                shadow_outcomes=attempts.shadow_outcomes(),
                foreign_restarts=records.foreign_restarts(),
                given_up=records.given_up(),
                loads={name: records.record(name).longest_load for name in self._backends},
                holds=self._store.holds.in_force(now),
            )
        except StorageError as error:
            log.warning("%s", line(event="collect_failed", why=error))
            return None
