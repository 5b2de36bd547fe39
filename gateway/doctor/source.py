"""A file that doctor knows: which kind it is, told by its name and by what it says."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from fleet.compose_file import is_compose
from fleet.finding import Finding
from fleet.manifest import is_manifest, objects
from fleet.placed_yaml import Placed, documents
from fleet.unit_file import Unit
from gateway.doctor import annotations, arithmetic, compose, haproxy, nginx, pods, replicas, units
from gateway.doctor.haproxy_file import Section, sections
from gateway.doctor.nginx import Peers
from gateway.doctor.nginx_file import NginxFile, parsed
from gateway.doctor.ours import Program
from gateway.doctor.times import Told, is_fleet

YAML_SUFFIXES = frozenset({".yml", ".yaml", ".json"})
UNIT_SUFFIXES = frozenset({".service", ".container"})
HAPROXY_SUFFIXES = frozenset({".cfg"})
NGINX_SUFFIXES = frozenset({".conf", ".nginx"})
NGINX_FOLDERS = frozenset({"sites-enabled", "sites-available", "conf.d", "snippets"})
# Looked for before the text is parsed, which takes a second for each few hundred kilobytes.
WORTH_PARSING = re.compile(
    r"\bapiVersion\b|^[\"']?(?:services|gateway|backends|discovery)[\"']?[ \t]*:|\A\s*\{",
    re.MULTILINE,
)
NGINX = re.compile(
    r"^[ \t]*(?:(?:server|http|events|(?:location|upstream)[ \t][^{};\n]{1,300})\s?\{"
    r"|(?:proxy_\w{1,40}|include|worker_\w{1,40})[ \t][^;\n]{1,300};)",
    re.MULTILINE,
)
HAPROXY = re.compile(
    r"^[ \t]*(?:global|defaults|(?:frontend|backend|listen)[ \t]+\S+)", re.MULTILINE
)


class Kind(StrEnum):
    """What a file is."""

    YAML = "manifest, compose file or fleet.yml"
    UNIT = "systemd unit"
    NGINX = "nginx"
    HAPROXY = "HAProxy"
    UNKNOWN = "unknown"


def is_drop_in(path: PurePath) -> bool:
    """Whether a file is a drop-in of a unit."""
    folders = tuple(f"{suffix}.d" for suffix in UNIT_SUFFIXES)
    return path.suffix == ".conf" and path.parent.name.endswith(folders)


def may_be_known(path: PurePath) -> bool:
    """Whether a file in a folder is worth reading, by its name alone."""
    known = YAML_SUFFIXES | UNIT_SUFFIXES | HAPROXY_SUFFIXES | NGINX_SUFFIXES
    return path.suffix in known or path.parent.name in NGINX_FOLDERS


def kind(path: PurePath, text: str) -> Kind:
    """What a file is; one without a known name may be of any kind, by what it says."""
    if path.suffix in UNIT_SUFFIXES or is_drop_in(path):
        return Kind.UNIT
    if path.suffix in YAML_SUFFIXES:
        return Kind.YAML if WORTH_PARSING.search(text) else Kind.UNKNOWN
    if path.suffix not in NGINX_SUFFIXES and HAPROXY.search(text):
        return Kind.HAPROXY
    if path.suffix not in HAPROXY_SUFFIXES and NGINX.search(text):
        return Kind.NGINX
    return Kind.YAML if WORTH_PARSING.search(text) else Kind.UNKNOWN


@dataclass(frozen=True)
class Source:
    """A file, parsed. ``file`` is its name as it was given."""

    file: str
    kind: Kind
    documents: tuple[Placed, ...] = ()
    unit: units.UnitFile | None = None
    nginx: NginxFile | None = None
    haproxy: tuple[Section, ...] = ()

    @classmethod
    def known(cls, file: str, path: PurePath, text: str) -> "Source | None":
        """Nothing where doctor does not know its kind. Raises YamlError and UnreadableError."""
        match kind(path, text):
            case Kind.YAML:
                found = documents(text)
                if any(is_manifest(each) or is_compose(each) or is_fleet(each) for each in found):
                    return cls(file, Kind.YAML, documents=found)
                return None
            case Kind.UNIT:
                owner = path.parent.name.removesuffix(".d") if is_drop_in(path) else path.name
                suffix = owner.rpartition(".")[2]
                unit = units.UnitFile(file, Unit.of(path, text), suffix, not is_drop_in(path))
                return cls(file, Kind.UNIT, unit=unit)
            case Kind.NGINX:
                directives = parsed(file, text)
                return cls(file, Kind.NGINX, nginx=NginxFile(file, path, directives))
            case Kind.HAPROXY:
                return cls(file, Kind.HAPROXY, haproxy=sections(text))
            case Kind.UNKNOWN:
                return None

    def that(self, holds: Callable[[Placed], bool]) -> Iterator[Placed]:
        """Its documents of which that holds."""
        return (each for each in self.documents if holds(each))


def findings(sources: Sequence[Source]) -> tuple[Finding, ...]:
    """What does not fit together in all these files. Sorted by file and line; each once."""
    return tuple(sorted(set(_findings(sources))))


def _findings(sources: Sequence[Source]) -> Iterator[Finding]:
    told = [Told.of(each.file, document) for each in sources for document in each.that(is_fleet)]
    times = arithmetic.chosen(told)
    yield from arithmetic.findings(told)
    things = [
        replicas.Thing(each.file, thing)
        for each in sources
        for thing in objects(tuple(each.that(is_manifest)))
    ]
    found = [pod for each in things for pod in pods.pods(each.file, each.placed)]
    for pod in found:
        yield from pods.findings(pod, times)
        yield from replicas.findings(pod, things)
    placed = [each.placed for each in things]
    gateways, servers = (
        annotations.services(placed, [pod.labels for pod in found if pod.runs(each)])
        for each in Program
    )
    for thing in things:
        yield from annotations.findings(thing.file, thing.placed, gateways, times)
    composed = [(each.file, document) for each in sources for document in each.that(is_compose)]
    for file, document in composed:
        yield from compose.findings(file, document, times)
        gateways |= compose.names(document, Program.GATEWAY)
        servers |= compose.names(document, Program.VLLM)
    yield from units.findings([each.unit for each in sources if each.unit], times)
    peers = Peers(gateways, servers)
    yield from nginx.findings([each.nginx for each in sources if each.nginx], peers, times)
    for each in sources:
        yield from haproxy.findings(each.file, each.haproxy, peers, times)
