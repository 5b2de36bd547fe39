"""Kinds of values in fleet.yml: how each is read, and one sentence for what is none of it."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator
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
UNIT = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,240}\.service", re.ASCII)
CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}", re.ASCII)
KUBERNETES_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", re.ASCII)
WORKLOADS = ("deployment", "statefulset", "daemonset")
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


def _unit_name(text: str) -> str:
    if not UNIT.fullmatch(text):
        raise _wrong("is not the name of a systemd unit, such as vllm@gpu-a.service")
    return text


def _container_name(text: str) -> str:
    if not CONTAINER.fullmatch(text):
        raise _wrong("is not the name or id of a container")
    return text


def _engine_host(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        return text
    if parts.scheme in ("tcp", "http", "https") and parts.hostname and parts.username is None:
        return text
    raise _wrong("is not where a container engine listens, such as unix:///var/run/docker.sock")


def _kubernetes_name(text: str) -> str:
    if not KUBERNETES_NAME.fullmatch(text) or len(text) > LONGEST_DNS_NAME:
        raise _wrong("is not a name of Kubernetes (lower-case letters, digits, '-', '.')")
    return text


def _workload(text: str) -> str:
    kind, slash, name = text.partition("/")
    if not slash or kind not in WORKLOADS:
        raise _wrong(f"is not a workload: {', '.join(f'{kind}/NAME' for kind in WORKLOADS)}")
    _kubernetes_name(name)
    return text


Seconds = Annotated[float, BeforeValidator(seconds)]
SecondsOrOff = Annotated[float | None, BeforeValidator(_seconds_or_off)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
FilePath = Annotated[str, AfterValidator(_file_path)]
TargetsFile = Annotated[str, AfterValidator(_targets_file)]
DnsName = Annotated[str, AfterValidator(_dns_name)]
Resolver = Annotated[str, AfterValidator(_resolver)]
BackendName = Annotated[str, AfterValidator(_backend_name)]
Words = Annotated[list[str], AfterValidator(_command)]
UnitName = Annotated[str, AfterValidator(_unit_name)]
ContainerName = Annotated[str, AfterValidator(_container_name)]
EngineHost = Annotated[str, AfterValidator(_engine_host)]
KubernetesName = Annotated[str, AfterValidator(_kubernetes_name)]
Workload = Annotated[str, AfterValidator(_workload)]
