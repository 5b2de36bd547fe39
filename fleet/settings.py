"""fleet.yml, the one file all programs read: strict, into frozen values.

Every error names the file, the place in it and the value, in one sentence. Secrets are never in
the file itself: it names files that hold them.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fleet.backend import Backend, Kind, Restart
from fleet.mistake import sentence
from fleet.schema import BackendSection, DefaultsSection, FleetFile


class SettingsError(Exception):
    """fleet.yml cannot be used; ``problems`` holds one sentence for each mistake."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Mode(StrEnum):
    """What the remediator does with a decision to restart."""

    ACT = "act"
    SHADOW = "shadow"


@dataclass(frozen=True)
class ExporterSettings:
    """How often and how patiently backends are read; all in seconds.

    ``answer_every`` is the shortest time between two short requests to one idle engine; None
    means that no request is ever sent.
    """

    interval: float
    timeout: float
    answer_every: float | None


@dataclass(frozen=True)
class RemediatorSettings:
    """What the remediator may do and how sure it must be; durations in seconds.

    ``confirm_for``: how long a backend is read directly, without a sign of life, before a restart.
    ``answer_within``: how long the short request sent in that time may stay unanswered.
    ``recheck_every``: how often an incident that is held is looked at again.
    ``cool_down``: the shortest time between two restarts of one backend.
    ``fleet_restarts`` in ``fleet_window``: the most restarts of all backends together.
    """

    mode: Mode
    token_file: Path
    database: str
    alertmanager: str
    confirm_for: float
    answer_within: float
    recheck_every: float
    cool_down: float
    fleet_restarts: int
    fleet_window: float


@dataclass(frozen=True)
class Settings:
    """All of fleet.yml. ``remediator`` is None where the file has no such section."""

    file: Path
    backends: tuple[Backend, ...]
    exporter: ExporterSettings
    remediator: RemediatorSettings | None

    def backend(self, name: str) -> Backend | None:
        """The backend of exactly this name, or None."""
        return next((backend for backend in self.backends if backend.name == name), None)


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key that is written twice is a mistake, not an overwrite.

    What a merge (``<<: *defaults``) brings in may be overwritten: that is what merges are for.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 -- PyYAML's
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.composer.ComposerError(
                        problem=f"the key {key.value!r} stands there twice",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        return node


def load(file: Path) -> Settings:
    """Read fleet.yml. Raises SettingsError with one sentence for each mistake in it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise SettingsError((f"{file}: cannot be read: {reason}",)) from None
    return parse(text, file)


def parse(text: str, file: Path) -> Settings:
    """Settings of the text of a fleet.yml; ``file`` is named in errors and anchors paths.

    Raises SettingsError with one sentence for each mistake.
    """
    try:
        tree = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 -- a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise SettingsError((f"{file}{where}: is not valid YAML: {error.problem}",)) from None
    except yaml.YAMLError as error:
        raise SettingsError((f"{file}: is not valid YAML: {_one_line(error)}",)) from None
    except RecursionError:
        raise SettingsError((f"{file}: is not valid YAML: it is nested too deeply",)) from None
    except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # PyYAML's own, on a date, number or tagged value that is none.
        raise SettingsError((f"{file}: is not valid YAML: {_one_line(error)}",)) from None
    if not isinstance(tree, dict):
        raise SettingsError((f"{file}: is not a mapping with a list of backends",))
    try:
        fleet = FleetFile.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(tuple(f"{file}: {sentence(e)}" for e in error.errors())) from None
    problems = tuple(f"{file}: {problem}" for problem in _contradictions(fleet))
    if problems:
        raise SettingsError(problems)
    return _settings(fleet, file)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _settings(fleet: FleetFile, file: Path) -> Settings:
    # Links are not followed: a ConfigMap's file leads into a folder that each update replaces.
    folder = file.absolute().parent
    remediator = fleet.remediator
    return Settings(
        file=file,
        backends=tuple(_one(entry, fleet.defaults, folder) for entry in fleet.backends),
        exporter=ExporterSettings(**fleet.exporter.model_dump()),
        remediator=None
        if remediator is None
        else RemediatorSettings(
            **remediator.model_dump(exclude={"mode", "token_file", "database"}),
            mode=Mode(remediator.mode),
            token_file=folder / remediator.token_file,
            database=_anchored(remediator.database, folder),
        ),
    )


def _one(entry: BackendSection, defaults: DefaultsSection, folder: Path) -> Backend:
    return Backend(
        name=entry.name,
        url=entry.url,
        kind=Kind(entry.kind),
        wait=entry.wait or defaults.wait,
        load_time=entry.load_time or defaults.load_time,
        warm_up=entry.warm_up or defaults.warm_up,
        api_key_file=folder / entry.api_key_file if entry.api_key_file else None,
        restart=Restart(tuple(entry.restart.command), entry.restart.timeout)
        if entry.restart
        else None,
    )


def _anchored(database: str, folder: Path) -> str:
    """A relative SQLite file stands beside fleet.yml, wherever the program was started."""
    scheme, separator, path = database.partition(":///")
    if not separator or not scheme.startswith("sqlite") or not path or path.startswith(":"):
        return database
    return f"{scheme}:///{folder / path}"


def _contradictions(fleet: FleetFile) -> list[str]:
    """What is wrong between settings that are each valid."""
    problems = []
    first: dict[str, int] = {}
    for i, entry in enumerate(fleet.backends):
        if entry.name in first:
            problems.append(
                f"backends[{i}].name: {entry.name!r} is already the name of "
                f"backends[{first[entry.name]}]"
            )
        first.setdefault(entry.name, i)
        wait = entry.wait or fleet.defaults.wait
        if wait < 2 * fleet.exporter.interval:
            problems.append(
                f"backends[{i}].wait: {wait:g}s is shorter than two poll intervals "
                f"(exporter.interval is {fleet.exporter.interval:g}s); one wait must hold two reads"
            )
    if fleet.exporter.timeout > fleet.exporter.interval:
        problems.append(
            f"exporter.timeout: {fleet.exporter.timeout:g}s is longer than exporter.interval "
            f"({fleet.exporter.interval:g}s); one read must end before the next begins"
        )
    return problems
