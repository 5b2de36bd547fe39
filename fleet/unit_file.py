"""systemd's unit files, their drop-ins, and Quadlet files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True)
class Setting:
    """``key = value``, where continued lines are one; ``line`` is the first of them."""

    line: int
    key: str
    value: str


@dataclass(frozen=True)
class Unit:
    """A unit file or a drop-in of one."""

    name: str
    settings: tuple[Setting, ...]

    @classmethod
    def of(cls, path: PurePath, text: str) -> "Unit":
        """``vllm.service`` and its drop-ins ``vllm.service.d/*.conf`` are units named vllm."""
        owner = path.parent.name.removesuffix(".d") if path.suffix == ".conf" else path.name
        return cls(owner.rpartition(".")[0], tuple(_settings(text)))

    def last(self, key: str) -> Setting | None:
        """The setting that counts where one is written several times."""
        found = [each for each in self.settings if each.key == key]
        return found[-1] if found else None

    def commands(self) -> Iterator[Setting]:
        """What the unit runs, without the prefixes that systemd takes off (``-@:+!``)."""
        for each in self.settings:
            if each.key.startswith("Exec") and each.value.lstrip("-@:+!"):
                yield Setting(each.line, each.key, each.value.lstrip("-@:+!"))


def _settings(text: str) -> Iterator[Setting]:
    begun: list[str] = []
    first = 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or not (stripped or begun):
            continue
        first = first if begun else number
        begun.append(stripped.removesuffix("\\"))
        if stripped.endswith("\\"):
            continue
        key, equals, value = " ".join(begun).partition("=")
        if equals:
            yield Setting(first, key.strip(), value.strip())
        begun = []
