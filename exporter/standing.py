"""What the exporter is set to watch at one moment, for its pages to tell."""

from dataclasses import dataclass

from fleet.settings import ExporterSettings


@dataclass(frozen=True)
class SourceStanding:
    """One source of backends: how many it gave, and how many of its looks failed in part.

    ``has_looked``: whether the first look is over and what it gave is watched.
    """

    name: str
    backends: int
    failures: int
    has_looked: bool


@dataclass(frozen=True)
class Standing:
    """Who is to be watched, by their names, and how that came to be.

    ``not_running``: threads that should run and do not. ``reload_succeeded``: whether the fleet.yml
    that was read last is in force; ``reloaded_at``: since when the one in force is, Unix seconds.
    """

    settings: ExporterSettings
    backends: tuple[str, ...]
    sources: tuple[SourceStanding, ...] = ()
    not_running: tuple[str, ...] = ()
    reload_succeeded: bool = True
    reloaded_at: float = 0.0
