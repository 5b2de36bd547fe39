"""The shape of a real metrics page: which lines, in which order, with which labels.

The pages in ``pages/`` are recordings of vLLM 0.32.0 with the values taken out and without the
lines that Python itself adds; one as a single API server writes it, one in multiprocess mode.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

Labels = tuple[tuple[str, str], ...]

_LINE = re.compile(r"^([^{ ]+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Shape(StrEnum):
    """How many API servers write the page; the names of the files in ``pages/``."""

    SINGLE = "single"
    MULTIPROCESS = "multiprocess"


@dataclass(frozen=True)
class Line:
    """One sample line; ``value`` is what it shows until something is known."""

    sample: str
    labels: Labels
    value: float

    def without(self, *names: str) -> Labels:
        """The labels but for these."""
        return tuple((name, value) for name, value in self.labels if name not in names)

    def text(self, **labels: str) -> str:
        """The line up to its value, with other values for some of its labels."""
        shown = ",".join(f'{name}="{labels.get(name, value)}"' for name, value in self.labels)
        return f"{self.sample}{{{shown}}}" if shown else self.sample


@dataclass(frozen=True)
class Family:
    """HELP, TYPE and the lines of one family; ``_created`` series are a family of their own."""

    name: str
    kind: str
    header: str
    lines: tuple[Line, ...]

    @property
    def created(self) -> bool:
        """Whether it only says since when another family counts."""
        return self.name.endswith("_created")


def recorded(shape: Shape) -> tuple[Family, ...]:
    """The families of the recorded page of this shape, in its order."""
    return families(files(__package__).joinpath("pages", f"{shape}.prom").read_text())


def families(text: str) -> tuple[Family, ...]:
    """Take a page apart."""
    return tuple(map(_family, re.split(r"^(?=# HELP )", text, flags=re.MULTILINE)[1:]))


def _family(text: str) -> Family:
    help_line, type_line, *lines = text.splitlines()
    _, _, name, kind = type_line.split()
    return Family(name, kind, f"{help_line}\n{type_line}\n", tuple(map(_line, lines)))


def _line(text: str) -> Line:
    match = _LINE.match(text)
    if match is None:
        raise ValueError(f"not a sample line: {text!r}")
    sample, labels, value = match.groups()
    return Line(sample, tuple(_LABEL.findall(labels or "")), float(value))
