"""What may stand in fleet.yml: every section, every setting, its type and its default."""

import ipaddress
import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

DURATION = re.compile(
    r"(?:(?P<w>\d+)w)?(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?"
    r"(?:(?P<s>\d+)s)?(?:(?P<ms>\d+)ms)?",
    re.ASCII,
)
# Longer than any sensible duration, and few enough digits for the arithmetic.
LONGEST_DURATION = 366 * 86400.0
MOST_DIGITS = 40
UNIT_SECONDS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# A label of a DNS name; its length as a whole is looked at apart.
DNS_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
LONGEST_DNS_NAME = 253
DNS_PORT = 53
# As Prometheus has it: the last part of the path may have `*` in it, and the ending is known.
TARGETS_FILE = re.compile(r"[^*]*(?:\*[^/]*)?\.(?:json|ya?ml|JSON|YA?ML)")


def seconds(text: object) -> float:
    """Seconds of a duration as Prometheus writes it: ``90s``, ``1m30s``, ``2h``.

    Raises PydanticCustomError where it is none, is zero, or is longer than a year.
    """
    match = DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        raise _wrong("is not a duration such as 90s, 1m30s or 2h")
    if len(match.string) > MOST_DIGITS:
        raise _wrong("is longer than a year")
    total = sum(int(value) * UNIT_SECONDS[unit] for unit, value in match.groupdict("0").items())
    if total <= 0:
        raise _wrong("is not longer than zero")
    if total > LONGEST_DURATION:
        raise _wrong("is longer than a year")
    return total


def _wrong(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("lifeguard", "{sentence}", {"sentence": sentence})


def _http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise _wrong("is not an http(s) URL") from None
    is_http = parts.scheme in ("http", "https") and parts.hostname and port_is_valid
    if not is_http or not text.isprintable() or " " in text:
        raise _wrong("is not an http(s) URL")
    if parts.username is not None or parts.password is not None:
        raise _wrong("has a user or password in it; put the key into a file (api_key_file)")
    if "?" in text or "#" in text:
        raise _wrong("has a query or fragment, which a base URL cannot have")
    return text.rstrip("/")


def _backend_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise _wrong(
            "is not a backend name (letters, digits, '_', '.', '-'; 63 at most; "
            "the first a letter or digit)"
        )
    return text


def _file_path(text: str) -> str:
    if not text or not text.isprintable():
        raise _wrong("is not the path of a file")
    return text


def _targets_file(text: str) -> str:
    if not text.isprintable() or not TARGETS_FILE.fullmatch(text):
        raise _wrong(
            "is not the path of a .json, .yml or .yaml file (its last part may have '*' in it)"
        )
    return text


def _dns_name(text: str) -> str:
    if not DNS_NAME.fullmatch(text) or len(text.rstrip(".")) > LONGEST_DNS_NAME:
        raise _wrong("is not a DNS name")
    return text


def resolver_address(text: str) -> tuple[str, int]:
    """The IP address and port of a DNS server: ``10.0.0.53``, ``10.0.0.53:53``, ``[::1]:53``.

    Raises PydanticCustomError where it is none.
    """
    try:
        if text.count(":") > 1 and not text.startswith("["):
            return str(ipaddress.IPv6Address(text)), DNS_PORT
        parts = urlsplit(f"//{text}")
        address = str(ipaddress.ip_address(parts.hostname or ""))
        port = DNS_PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if port == 0 or parts.netloc != text or "@" in text:
        raise _wrong("is not the IP address of a DNS server, such as 10.0.0.53 or 10.0.0.53:53")
    return address, port


def _resolver(text: str) -> str:
    resolver_address(text)
    return text


def _command(words: list[str]) -> list[str]:
    if not words or not words[0]:
        raise _wrong("names no program")
    return words


def _seconds_or_off(text: object) -> float | None:
    # YAML reads `off` as False.
    return None if text is False or text == "off" else seconds(text)


Seconds = Annotated[float, BeforeValidator(seconds)]
SecondsOrOff = Annotated[float | None, BeforeValidator(_seconds_or_off)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
FilePath = Annotated[str, AfterValidator(_file_path)]
TargetsFile = Annotated[str, AfterValidator(_targets_file)]
DnsName = Annotated[str, AfterValidator(_dns_name)]
Resolver = Annotated[str, AfterValidator(_resolver)]
BackendName = Annotated[str, AfterValidator(_backend_name)]


class Section(BaseModel):
    """A part of the file: no other settings than these, no types but the right ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RestartSection(Section):
    """``backends[].restart``."""

    command: Annotated[list[str], AfterValidator(_command)]
    timeout: Seconds = 120.0


class DefaultsSection(Section):
    """``defaults``."""

    wait: Seconds = 90.0
    load_time: Seconds = 600.0
    warm_up: Seconds = 180.0


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


class RemediatorSection(Section):
    """``remediator``."""

    mode: Literal["act", "shadow"]
    token_file: FilePath
    alertmanager: HttpUrl
    database: str = "sqlite:///remediator.db"
    confirm_for: Seconds = 15.0
    answer_within: Seconds = 30.0
    recheck_every: Seconds = 30.0
    cool_down: Seconds = 900.0
    fleet_restarts: Annotated[int, Field(ge=1)] = 3
    fleet_window: Seconds = 3600.0


class FleetFile(Section):
    """The whole file."""

    backends: list[BackendSection] = []
    discovery: list[DiscoverySection] = []
    defaults: DefaultsSection = DefaultsSection()
    exporter: ExporterSection = ExporterSection()
    remediator: RemediatorSection | None = None
