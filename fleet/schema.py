"""What may stand in fleet.yml: every section, every setting, its type and its default."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fleet.value import (
    BackendName,
    ContainerName,
    DnsName,
    EngineHost,
    FilePath,
    HttpUrl,
    KubernetesName,
    Resolver,
    Seconds,
    SecondsOrOff,
    TargetsFile,
    UnitName,
    Words,
    Workload,
)


class Section(BaseModel):
    """A part of the file: no other settings than these, no types but the right ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SystemdSection(Section):
    """``backends[].restart.systemd``."""

    unit: UnitName
    user: bool = False


class DockerSection(Section):
    """``backends[].restart.docker``."""

    container: ContainerName
    host: EngineHost = "unix:///var/run/docker.sock"
    grace: Seconds = 30.0


class KubernetesSection(Section):
    """``backends[].restart.kubernetes``."""

    namespace: KubernetesName
    pod: KubernetesName | None = None
    selector: Annotated[str | None, Field(min_length=1)] = None
    workload: Workload | None = None
    grace: Seconds | None = None
    kubeconfig: FilePath | None = None
    context: Annotated[str | None, Field(min_length=1)] = None


class RestartSection(Section):
    """``backends[].restart``."""

    command: Words | None = None
    systemd: SystemdSection | None = None
    docker: DockerSection | None = None
    kubernetes: KubernetesSection | None = None
    timeout: Seconds = 120.0


class DefaultsSection(Section):
    """``defaults``."""

    wait: Seconds = 90.0
    load_time: Seconds = 600.0
    warm_up: Seconds = 180.0
    gateways: list[HttpUrl] = []


class BackendSection(Section):
    """One of ``backends``."""

    name: BackendName
    url: HttpUrl
    kind: Literal["vllm", "proxy"] = "vllm"
    wait: Seconds | None = None
    load_time: Seconds | None = None
    warm_up: Seconds | None = None
    api_key_file: FilePath | None = None
    restart: RestartSection | None = None
    evidence: list[Words] = []
    gateways: list[HttpUrl] | None = None


class DnsSection(Section):
    """``discovery[].dns``."""

    names: Annotated[list[DnsName], Field(min_length=1)]
    type: Literal["A", "AAAA", "SRV"] = "SRV"
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    resolver: Resolver | None = None


class DiscoverySection(Section):
    """One of ``discovery``."""

    name: BackendName | None = None
    files: Annotated[list[TargetsFile] | None, Field(min_length=1)] = None
    dns: DnsSection | None = None
    refresh: Seconds | None = None
    scheme: Literal["http", "https"] = "http"
    kind: Literal["vllm", "proxy"] = "vllm"
    wait: Seconds | None = None
    api_key_file: FilePath | None = None


class ExporterSection(Section):
    """``exporter``."""

    interval: Seconds = 15.0
    timeout: Seconds = 5.0
    answer_every: SecondsOrOff = 300.0


class BasicAuthSection(Section):
    """``remediator.basic_auth``."""

    username: Annotated[str, Field(min_length=1)]
    password_file: FilePath


class TlsSection(Section):
    """``remediator.tls``."""

    certificate_file: FilePath
    key_file: FilePath


class RemediatorSection(Section):
    """``remediator``."""

    mode: Literal["act", "shadow"]
    token_file: FilePath | None = None
    basic_auth: BasicAuthSection | None = None
    api_token_file: FilePath | None = None
    tls: TlsSection | None = None
    alertmanager: HttpUrl
    alertmanager_unreachable: Literal["hold", "go_on"] = "hold"
    database: str = "sqlite:///remediator.db"
    takeover_after: Seconds = 15.0
    confirm_for: Seconds = 15.0
    answer_within: Seconds = 30.0
    recheck_every: Seconds = 30.0
    patrol_every: Seconds = 60.0
    cool_down: Seconds = 900.0
    longest_cool_down: Seconds | None = None
    helped_after: Seconds = 3600.0
    give_up_after: Annotated[int, Field(ge=1)] = 3
    backend_restarts: Annotated[int, Field(ge=1)] = 4
    backend_window: Seconds = 43200.0
    fleet_restarts: Annotated[int, Field(ge=1)] = 3
    fleet_window: Seconds = 3600.0
    max_parallel: Annotated[int, Field(ge=1)] = 1
    storm_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    storm_least: Annotated[int, Field(ge=2)] = 3
    longest_hold: Seconds = 604800.0
    gateway_token_file: FilePath | None = None
    drain_timeout: Seconds = 60.0
    evidence_folder: FilePath | None = None
    evidence_timeout: Seconds = 20.0
    evidence_keep: Annotated[int, Field(ge=1)] = 100


class GatewaySection(Section):
    """``gateway``."""

    admin_token_file: FilePath
    keys_file: FilePath | None = None
    database: str = "sqlite:///gateway.db"
    journal_folder: FilePath = "journal"
    resume_key_file: FilePath | None = None
    exporter: HttpUrl | None = None
    window: Seconds = 60.0
    margin: Seconds = 10.0
    propagation: Seconds = 5.0
    stall_after: Seconds = 60.0
    first_byte_after: Seconds = 600.0
    client_stall_after: Seconds = 300.0
    keep_alive: Seconds = 15.0
    connect_timeout: Seconds = 5.0
    look_every: Seconds = 5.0
    tries: Annotated[int, Field(ge=1)] = 3
    legs: Annotated[int, Field(ge=1)] = 5
    largest_body: Annotated[int, Field(ge=1)] = 16777216
    per_caller: Annotated[int | None, Field(ge=1)] = None
    questions_per_caller: Annotated[int, Field(ge=1)] = 1000
    cors_origins: list[str] = []
    resume_for: Seconds = 600.0
    takeover_after: Seconds = 15.0


class FleetFile(Section):
    """The whole file."""

    backends: list[BackendSection] = []
    discovery: list[DiscoverySection] = []
    defaults: DefaultsSection = DefaultsSection()
    exporter: ExporterSection = ExporterSection()
    remediator: RemediatorSection | None = None
    gateway: GatewaySection | None = None
