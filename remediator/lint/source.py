"""A file that lint knows: which kind it is, told by its name and by what it says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from fleet.compose_file import is_compose
from fleet.finding import Finding
from fleet.manifest import is_manifest
from fleet.placed_yaml import Placed, documents
from fleet.unit_file import Unit
from remediator.lint import compose, cron, manifests, units

YAML_SUFFIXES = frozenset({".yml", ".yaml", ".json"})
UNIT_SUFFIXES = frozenset({".service", ".timer", ".container"})
CRON_SUFFIXES = frozenset({".cron", ".crontab"})
CRON_FOLDERS = frozenset({"cron.d", "crontabs"})
# Looked for before the text is parsed, which takes a second for each few hundred kilobytes.
MANIFEST = (re.compile(r"\bapiVersion\b"), re.compile(r"\bkind\b"))
COMPOSE = re.compile(r"^[\"']?services[\"']?\s*:", re.MULTILINE)


class Kind(StrEnum):
    """What a file is."""

    YAML = "compose file or manifest"
    UNIT = "systemd unit"
    CRON = "crontab"
    UNKNOWN = "unknown"


def may_be_known(path: PurePath) -> bool:
    """Whether a file in a folder is worth reading, by its name alone."""
    drop_in = path.suffix == ".conf" and path.parent.name.endswith((".service.d", ".container.d"))
    by_suffix = path.suffix in YAML_SUFFIXES | UNIT_SUFFIXES | CRON_SUFFIXES
    return drop_in or by_suffix or path.name == "crontab" or path.parent.name in CRON_FOLDERS


def kind(path: PurePath, text: str) -> Kind:
    """What a file is; one without a known name may still be a crontab, or YAML."""
    if path.suffix in UNIT_SUFFIXES or (path.suffix == ".conf" and may_be_known(path)):
        return Kind.UNIT
    named = path.name == "crontab" or path.suffix in CRON_SUFFIXES
    if named or path.parent.name in CRON_FOLDERS or cron.is_crontab(text):
        return Kind.CRON
    as_json = text.lstrip().startswith("{") and '"services"' in text
    if all(sign.search(text) for sign in MANIFEST) or COMPOSE.search(text) or as_json:
        return Kind.YAML
    return Kind.UNKNOWN


@dataclass(frozen=True)
class Source:
    """A file's text, parsed as far as its kind needs it. ``file`` is its name as it was given."""

    file: str
    path: PurePath
    kind: Kind
    text: str
    documents: tuple[Placed, ...] = ()

    @classmethod
    def of(cls, file: str, path: PurePath, text: str) -> "Source":
        """Raises YamlError. Of a kind that is unknown where lint does not know it."""
        found = kind(path, text)
        if found is not Kind.YAML:
            return cls(file, path, found, text)
        parsed = documents(text)
        known = any(is_compose(each) or is_manifest(each) for each in parsed)
        return cls(file, path, Kind.YAML if known else Kind.UNKNOWN, text, parsed)

    @classmethod
    def known(cls, file: str, path: PurePath, text: str) -> "Source | None":
        """The same, nothing where lint does not know its kind. Raises YamlError."""
        source = cls.of(file, path, text)
        return None if source.kind is Kind.UNKNOWN else source

    @property
    def unit(self) -> Unit:
        """The file as a unit."""
        return Unit.of(self.path, self.text)

    def names(self) -> frozenset[str]:
        """The names that the servers in this file go by."""
        match self.kind:
            case Kind.YAML:
                return compose.names(self.documents) | manifests.names(self.documents)
            case Kind.UNIT:
                return units.names(self.unit)
            case _:
                return frozenset()

    def findings(self, known: frozenset[str], load_seconds: float) -> tuple[Finding, ...]:
        """What in this file may restart a server."""
        match self.kind:
            case Kind.YAML:
                return (
                    *compose.findings(self.file, self.documents, known),
                    *manifests.findings(self.file, self.documents, known, load_seconds),
                )
            case Kind.UNIT:
                return tuple(units.findings(self.file, self.unit, known))
            case Kind.CRON:
                return tuple(cron.findings(self.file, self.path, self.text, known))
            case Kind.UNKNOWN:
                return ()


def findings(sources: Sequence[Source], load_seconds: float) -> tuple[Finding, ...]:
    """What in all these files may restart a server: a server that one names, another may restart.

    Sorted by file and line; each once.
    """
    known = frozenset(name for source in sources for name in source.names())
    found = {each for source in sources for each in source.findings(known, load_seconds)}
    return tuple(sorted(found))
