"""Where backends come from that are not listed in fleet.yml one by one."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fleet.backend import Kind


class Record(StrEnum):
    """The type of DNS record that a name is looked up for."""

    A = "A"
    AAAA = "AAAA"
    SRV = "SRV"


@dataclass(frozen=True)
class Files:
    """Files in Prometheus' file_sd format; the last part of each path may have ``*`` in it."""

    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Dns:
    """Names to look up. ``port`` is None with SRV, whose records hold one.

    ``resolver`` is the address and port of the DNS server to ask; None: the system's.
    """

    names: tuple[str, ...]
    type: Record
    port: int | None
    resolver: tuple[str, int] | None


@dataclass(frozen=True)
class Source:
    """One of ``discovery``: where to look, how often, and what holds for the backends found.

    ``name`` is the value of the label ``source``. ``refresh``, ``wait``, ``load_time`` and
    ``warm_up`` are in seconds.
    """

    name: str
    lookup: Files | Dns
    refresh: float
    scheme: str
    kind: Kind
    wait: float
    load_time: float
    warm_up: float
    api_key_file: Path | None = None
