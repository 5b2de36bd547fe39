"""Which server a series is of: all its labels but those that vLLM itself writes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from fleet.reading import LABELS

NAME = "__name__"
# Prometheus puts this before a label of the page where the target has one of the same name.
EXPORTED = "exported_"
NOT_THE_TARGETS = frozenset({NAME, *LABELS, *(EXPORTED + label for label in LABELS)})


@dataclass(frozen=True, order=True)
class Target:
    """One scraped server, by its labels, sorted by name."""

    labels: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, series: Mapping[str, str]) -> Self:
        """The target that a series with these labels was scraped from."""
        return cls(tuple(sorted(item for item in series.items() if item[0] not in NOT_THE_TARGETS)))

    @property
    def name(self) -> str:
        """``job/instance``, as far as it has them; else all its labels."""
        known = dict(self.labels)
        short = "/".join(known[label] for label in ("job", "instance") if label in known)
        return short or self.full_name

    @property
    def full_name(self) -> str:
        """All labels, as PromQL writes them."""
        return "{" + ",".join(f"{label}={quoted(value)}" for label, value in self.labels) + "}"

    def selector(self, names: Iterable[str]) -> str:
        """A PromQL selector of this target's series of these names; it may select others' too."""
        by_name = f"{NAME}=~{quoted('|'.join(sorted(names)))}"
        return "{" + ",".join([by_name, *(f"{k}={quoted(v)}" for k, v in self.labels)]) + "}"


def page_labels(series: Mapping[str, str]) -> dict[str, str]:
    """The labels that vLLM wrote, under the names that it gave them."""
    written = {label: series.get(EXPORTED + label, series.get(label)) for label in LABELS}
    return {label: value for label, value in written.items() if value is not None}


def quoted(text: str) -> str:
    """Text as a PromQL string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
