"""Reads from the database all that bears on one incident, within one transaction."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from fleet.backend import Kind
from fleet.settings import RemediatorSettings, Settings
from remediator import attempts, episodes, holds, records
from remediator.case import Case, Standing
from remediator.incident import Incident
from remediator.proof import Proof


@dataclass(frozen=True)
class Gather:
    """Builds cases by these settings."""

    settings: Settings
    limits: RemediatorSettings

    def case(
        self,
        connection: Connection,
        incident: Incident,
        standing: Standing,
        proof: Proof | None,
        now: datetime,
    ) -> Case:
        """The case of an incident, as the database knows it now."""
        return Case(
            incident=incident,
            backend=self.settings.backend(incident.backend),
            attempts=attempts.bearing_on(connection, incident, now - self._memory),
            standing=standing,
            settings=self.limits,
            proof=proof,
            holds=holds.holding(connection, incident.backend, now),
            record=records.record(connection, incident.backend),
            fleet=frozenset(b.name for b in self.settings.backends if b.kind is Kind.VLLM),
            in_trouble=episodes.in_trouble(connection),
        )

    @property
    def _memory(self) -> timedelta:
        """How long ago an attempt can have been made that a limit still counts."""
        limits = self.limits
        windows = (limits.longest_cool_down, limits.backend_window, limits.fleet_window)
        return timedelta(seconds=max(windows))
