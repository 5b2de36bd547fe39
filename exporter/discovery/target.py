"""One address that was found, and the backend it becomes."""

import hashlib
import ipaddress
import re
from dataclasses import dataclass

from fleet.backend import Backend, Kind
from fleet.discovery import Source
from fleet.value import NAME

LONGEST_NAME = 63
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:]*))(?::(?P<port>[0-9]{1,5}))?")
MOST_PORTS = 65535


class NoAddressError(ValueError):
    """A text is no ``host``, ``host:port`` or ``[IPv6]:port``."""


@dataclass(frozen=True)
class Target:
    """Where a server answers, and what its source says of this one in particular.

    ``host`` has no brackets. ``port`` None is the scheme's own. ``wait`` is in seconds.
    """

    host: str
    port: int | None = None
    name: str | None = None
    scheme: str | None = None
    kind: Kind | None = None
    wait: float | None = None


@dataclass(frozen=True)
class Finding:
    """What one look gave. ``failures``: one sentence for each part that kept its last answer.

    ``notes`` are answers that may be meant otherwise: a name that there is not.
    """

    targets: tuple[Target, ...] = ()
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def address(text: str) -> tuple[str, int | None]:
    """Host and port of a target as Prometheus writes it. Raises NoAddressError."""
    match = ADDRESS.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or port == 0 or (port or 0) > MOST_PORTS:
        raise NoAddressError(text)
    if match["v6"] is not None:
        try:
            return str(ipaddress.IPv6Address(match["v6"])), port
        except ValueError:
            raise NoAddressError(text) from None
    if not HOST.fullmatch(match["host"]):
        raise NoAddressError(text)
    return match["host"], port


def backend_of(target: Target, source: Source) -> Backend:
    """The backend at a target: what is said of the target itself goes before the source's."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    port = "" if target.port is None else f":{target.port}"
    return Backend(
        name=target.name or name_of(target.host, target.port),
        url=f"{target.scheme or source.scheme}://{host}{port}",
        kind=target.kind or source.kind,
        wait=target.wait or source.wait,
        load_time=source.load_time,
        warm_up=source.warm_up,
        api_key_file=source.api_key_file,
    )


def name_of(host: str, port: int | None) -> str:
    """A backend's name from its address: ``10.0.0.11_8000``, ``0--1_8000`` for ``[::1]:8000``.

    The same address has the same name always; a long host name is cut and told apart by a hash.
    """
    name = host if port is None else f"{host}_{port}"
    # ``0::1`` is another spelling of ``::1``; a name begins with a letter or a digit.
    name = f"0{name}" if name.startswith((":", "_")) else name
    name = name.replace(":", "-")
    if NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - len(digest) - 1]}-{digest}"
