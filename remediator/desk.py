"""What the web side has to do with: settings, the database, the worker, the clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry

from fleet.settings import RemediatorSettings, Settings
from remediator.exhibit import Exhibits
from remediator.journal import Journal
from remediator.saved import Saved
from remediator.store import Store


class Loop(Protocol):
    """The worker, as the web side knows it."""

    def wake(self) -> None:
        """Look at what has just been stored."""
        ...

    def trouble(self) -> str | None:
        """Why it cannot be relied on, or None."""
        ...


def in_folder(folder: str) -> Saved:
    """The evidence in a folder of ours."""
    return Exhibits(Path(folder))


@dataclass(frozen=True)
class Desk:
    """What the pages are made of; ``clock`` gives the wall time.

    ``saved`` gives the evidence in the folder that an attempt names.
    """

    settings: RemediatorSettings
    store: Store
    journal: Journal
    worker: Loop
    registry: CollectorRegistry
    clock: Callable[[], datetime]
    fleet: Settings
    saved: Callable[[str], Saved] = in_folder
