"""fleet.yml, the one file all programs read: strict, into frozen values.

Every error names the file, the place in it and the value, in one sentence. Secrets are never in
the file itself: it names files that hold them.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from fleet import strict_yaml
from fleet.backend import Backend, Kind, Restart
from fleet.contradictions import contradictions
from fleet.discovery import Dns, Files, Record, Source
from fleet.gateway import GatewaySettings
from fleet.mistake import sentence
from fleet.schema import (
    BackendSection,
    DefaultsSection,
    DiscoverySection,
    DnsSection,
    FleetFile,
    GatewaySection,
    RemediatorSection,
    RestartSection,
)
from fleet.value import resolver_address
from fleet.way import Command, Docker, Kubernetes, Systemd, Way

REFRESH_FILES, REFRESH_DNS = 5.0, 30.0
LONGEST_COOL_DOWN = 14400.0
NOT_PLAIN = {
    "mode",
    "alertmanager_unreachable",
    "longest_cool_down",
    "database",
    "token_file",
    "basic_auth",
    "api_token_file",
    "tls",
    "gateway_token_file",
    "evidence_folder",
}


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


class Unreachable(StrEnum):
    """What is done about an alert while Alertmanager cannot be asked for silences."""

    HOLD = "hold"
    GO_ON = "go_on"


@dataclass(frozen=True)
class BasicAuth:
    """A user's name, and the file with the password."""

    username: str
    password_file: Path


@dataclass(frozen=True)
class Tls:
    """PEM files: the certificate with its chain, and its key."""

    certificate_file: Path
    key_file: Path


@dataclass(frozen=True)
class RemediatorSettings:
    """What the remediator may do and how sure it must be; durations in seconds.

    Who may speak to it: ``token_file`` and ``basic_auth`` let Alertmanager in, ``api_token_file``
    lets people and batch jobs in (by default ``token_file`` does). What proves a hang:
    ``confirm_for``, how long a backend is read directly without a sign of life, and
    ``answer_within``, how long the short request sent in that time may stay unanswered.
    What limits restarts: ``cool_down`` between two of one backend, doubled up to
    ``longest_cool_down`` for each in a row that did not help, which is one after which the backend
    was in trouble again sooner than ``helped_after``; after ``give_up_after`` of them a person has
    to act; ``backend_restarts`` in ``backend_window``; ``fleet_restarts`` in ``fleet_window``;
    ``max_parallel`` at once; none while ``storm_share`` of the fleet, and at least
    ``storm_least`` backends, are in trouble at once.
    ``recheck_every``: how often an incident that is held is looked at again. ``patrol_every``: how
    often start times are read. ``takeover_after``: how long another remediator on the same database
    has to be silent before its work is taken over.
    """

    mode: Mode
    alertmanager: str
    database: str
    token_file: Path | None = None
    basic_auth: BasicAuth | None = None
    api_token_file: Path | None = None
    tls: Tls | None = None
    alertmanager_unreachable: Unreachable = Unreachable.HOLD
    takeover_after: float = 15.0
    confirm_for: float = 15.0
    answer_within: float = 30.0
    recheck_every: float = 30.0
    patrol_every: float = 60.0
    cool_down: float = 900.0
    longest_cool_down: float = LONGEST_COOL_DOWN
    helped_after: float = 3600.0
    give_up_after: int = 3
    backend_restarts: int = 4
    backend_window: float = 43200.0
    fleet_restarts: int = 3
    fleet_window: float = 3600.0
    max_parallel: int = 1
    storm_share: float = 0.5
    storm_least: int = 3
    longest_hold: float = 604800.0
    gateway_token_file: Path | None = None
    drain_timeout: float = 60.0
    evidence_folder: Path | None = None
    evidence_timeout: float = 20.0
    evidence_keep: int = 100


@dataclass(frozen=True)
class Settings:
    """All of fleet.yml. ``remediator`` and ``gateway`` are None where the file has no such section.

    ``backends`` are the listed ones; what ``discovery`` finds is not in the file.
    """

    file: Path
    backends: tuple[Backend, ...]
    exporter: ExporterSettings
    remediator: RemediatorSettings | None
    gateway: GatewaySettings | None = None
    discovery: tuple[Source, ...] = ()

    def backend(self, name: str) -> Backend | None:
        """The backend of exactly this name, or None."""
        return next((backend for backend in self.backends if backend.name == name), None)


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
        tree = strict_yaml.tree(text, strict_yaml.Values)
    except strict_yaml.YamlError as error:
        raise SettingsError((f"{file}{error.where}: {error}",)) from None
    if not isinstance(tree, dict):
        raise SettingsError((f"{file}: is not a mapping with a list of backends",))
    try:
        fleet = FleetFile.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(tuple(f"{file}: {sentence(e)}" for e in error.errors())) from None
    problems = tuple(f"{file}: {problem}" for problem in contradictions(fleet))
    if problems:
        raise SettingsError(problems)
    return _settings(fleet, file)


def _settings(fleet: FleetFile, file: Path) -> Settings:
    # Links are not followed: a ConfigMap's file leads into a folder that each update replaces.
    folder = file.absolute().parent
    remediator = fleet.remediator
    return Settings(
        file=file,
        backends=tuple(_one(entry, fleet.defaults, folder) for entry in fleet.backends),
        exporter=ExporterSettings(**fleet.exporter.model_dump()),
        remediator=None if remediator is None else _remediator(remediator, folder),
        gateway=None if fleet.gateway is None else _gateway(fleet.gateway, folder),
        discovery=tuple(
            _source(i, entry, fleet.defaults, folder) for i, entry in enumerate(fleet.discovery)
        ),
    )


def _remediator(entry: RemediatorSection, folder: Path) -> RemediatorSettings:
    basic, tls = entry.basic_auth, entry.tls
    return RemediatorSettings(
        **entry.model_dump(exclude=NOT_PLAIN),
        mode=Mode(entry.mode),
        alertmanager_unreachable=Unreachable(entry.alertmanager_unreachable),
        longest_cool_down=entry.longest_cool_down or max(LONGEST_COOL_DOWN, entry.cool_down),
        database=_anchored(entry.database, folder),
        token_file=_beside(entry.token_file, folder),
        basic_auth=BasicAuth(basic.username, folder / basic.password_file) if basic else None,
        api_token_file=_beside(entry.api_token_file or entry.token_file, folder),
        tls=Tls(folder / tls.certificate_file, folder / tls.key_file) if tls else None,
        gateway_token_file=_beside(entry.gateway_token_file, folder),
        evidence_folder=_beside(entry.evidence_folder, folder),
    )


def _gateway(entry: GatewaySection, folder: Path) -> GatewaySettings:
    files = {"admin_token_file", "keys_file", "journal_folder", "resume_key_file"}
    return GatewaySettings(
        **entry.model_dump(exclude={*files, "database", "cors_origins"}),
        admin_token_file=folder / entry.admin_token_file,
        keys_file=_beside(entry.keys_file, folder),
        journal_folder=folder / entry.journal_folder,
        resume_key_file=_beside(entry.resume_key_file, folder),
        database=_anchored(entry.database, folder),
        cors_origins=tuple(entry.cors_origins),
    )


def _beside(file: str | None, folder: Path) -> Path | None:
    return None if file is None else folder / file


def _one(entry: BackendSection, defaults: DefaultsSection, folder: Path) -> Backend:
    return Backend(
        name=entry.name,
        url=entry.url,
        kind=Kind(entry.kind),
        wait=entry.wait or defaults.wait,
        load_time=entry.load_time or defaults.load_time,
        warm_up=entry.warm_up or defaults.warm_up,
        api_key_file=folder / entry.api_key_file if entry.api_key_file else None,
        restart=Restart(_way(entry.restart, folder), entry.restart.timeout)
        if entry.restart
        else None,
        evidence=tuple(tuple(words) for words in entry.evidence),
        gateways=tuple(defaults.gateways if entry.gateways is None else entry.gateways),
    )


def _way(entry: RestartSection, folder: Path) -> Way:
    if entry.systemd:
        return Systemd(**entry.systemd.model_dump())
    if entry.docker:
        return Docker(**entry.docker.model_dump())
    if entry.kubernetes:
        values = entry.kubernetes.model_dump(exclude={"kubeconfig"})
        return Kubernetes(**values, kubeconfig=_beside(entry.kubernetes.kubeconfig, folder))
    return Command(tuple(entry.command or ()))


def _source(i: int, entry: DiscoverySection, defaults: DefaultsSection, folder: Path) -> Source:
    lookup = (
        _dns(entry.dns) if entry.dns else Files(tuple(folder / path for path in entry.files or ()))
    )
    return Source(
        name=entry.name or f"discovery[{i}]",
        lookup=lookup,
        refresh=entry.refresh or (REFRESH_DNS if entry.dns else REFRESH_FILES),
        scheme=entry.scheme,
        kind=Kind(entry.kind),
        wait=entry.wait or defaults.wait,
        load_time=defaults.load_time,
        warm_up=defaults.warm_up,
        api_key_file=folder / entry.api_key_file if entry.api_key_file else None,
    )


def _dns(entry: DnsSection) -> Dns:
    return Dns(
        names=tuple(entry.names),
        type=Record(entry.type),
        port=entry.port,
        resolver=resolver_address(entry.resolver) if entry.resolver else None,
    )


def _anchored(database: str, folder: Path) -> str:
    """A relative SQLite file stands beside fleet.yml, wherever the program was started."""
    scheme, separator, path = database.partition(":///")
    if not separator or not scheme.startswith("sqlite") or not path or path.startswith(":"):
        return database
    return f"{scheme}:///{folder / path}"
