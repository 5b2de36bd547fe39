"""The gateway's times in fleet.yml: how long its end takes, and how long a stream may be silent.

From SIGTERM on the gateway has ``window``; it goes on taking requests for ``propagation``, until
load balancers have noticed, and cuts what is left ``margin`` before the window ends. What is
between the two is the drain. A stream that has nothing to say gets a comment every ``keep_alive``;
an answer that is not streamed may be silent for ``first_byte_after``.

Read with tolerance: a value that is none counts as its default, and is a finding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from pydantic_core import PydanticCustomError

from fleet.gateway import idle_after
from fleet.placed_yaml import Placed
from fleet.schema import GatewaySection
from fleet.value import seconds


def _default(name: str) -> float:
    default: float = GatewaySection.model_fields[name].default
    return default


@dataclass(frozen=True)
class Times:
    """Durations in seconds; the defaults are the gateway's own."""

    window: float = _default("window")
    margin: float = _default("margin")
    propagation: float = _default("propagation")
    keep_alive: float = _default("keep_alive")
    stall_after: float = _default("stall_after")
    first_byte_after: float = _default("first_byte_after")

    @property
    def idle_after(self) -> float:
        """How long a gateway keeps an idle connection."""
        return idle_after(self.first_byte_after)

    @property
    def drain(self) -> float:
        """What streams have to finish in; negative where propagation and margin do not fit."""
        return self.window - self.propagation - self.margin

    @property
    def sum(self) -> str:
        """The window with its parts."""
        return (
            f"window {self.window:g} s (propagation {self.propagation:g} s + drain "
            f"{self.drain:g} s + margin {self.margin:g} s)"
        )


@dataclass(frozen=True)
class Told:
    """The times that a fleet.yml says, with their lines; ``wrong`` are those that are none."""

    file: str
    line: int
    times: Times
    lines: Mapping[str, int]
    wrong: Mapping[str, Placed]

    @classmethod
    def of(cls, file: str, document: Placed) -> "Told":
        """What section ``gateway`` says."""
        section = document.get("gateway")
        said: dict[str, float] = {}
        lines: dict[str, int] = {}
        wrong: dict[str, Placed] = {}
        for name in (field.name for field in fields(Times)):
            placed = section.get(name) if section else None
            if placed is None:
                continue
            lines[name] = placed.line
            try:
                said[name] = seconds(placed.text)
            except PydanticCustomError:
                wrong[name] = placed
        return cls(file, section.line if section else 1, Times(**said), lines, wrong)


def is_fleet(document: Placed) -> bool:
    """Whether a document is a fleet.yml."""
    foreign = document.word("apiVersion") or document.get("services")
    ours = any(document.get(name) for name in ("backends", "discovery"))
    return not foreign and (ours or _is_gateway(document))


def _is_gateway(document: Placed) -> bool:
    section = document.get("gateway")
    return section is not None and any(section.get(each.name) for each in fields(Times))
