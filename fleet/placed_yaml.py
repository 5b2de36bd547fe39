"""YAML whose every value knows its line: for what reads other people's files and points into them.

Scalars stay text, as they are written. Merges (``<<: *a``) are resolved: what an anchor brings in
keeps the line where it is written. Aliases are followed within bounds, so that a few lines that
stand for billions of values end in one sentence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from fleet.strict_yaml import YamlError, nodes

MOST_VALUES = 100_000  # keys count, too
MOST_LEVELS = 60


@dataclass(frozen=True)
class Placed:
    """A value; ``line`` is that of its key where it has one, and counts from 1.

    Asking for what is not there gives nothing, and never raises: a file may say anything.
    """

    line: int
    value: "str | tuple[Placed, ...] | Mapping[str, Placed]"

    @property
    def text(self) -> str:
        """The scalar, empty where this is none."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def items(self) -> "tuple[Placed, ...]":
        """The list, empty where this is none."""
        return self.value if isinstance(self.value, tuple) else ()

    @property
    def entries(self) -> "Mapping[str, Placed]":
        """The mapping, empty where this is none."""
        return self.value if isinstance(self.value, Mapping) else {}

    def get(self, *path: str) -> "Placed | None":
        """What stands below these keys, one inside the other."""
        found: Placed | None = self
        for key in path:
            found = found.entries.get(key) if found else None
        return found

    def word(self, *path: str) -> str:
        """The scalar below these keys, empty where there is none."""
        found = self.get(*path)
        return found.text if found else ""

    def walk(self) -> "Iterator[Placed]":
        """This value and all below it, in the order of the file."""
        yield self
        for below in (*self.items, *self.entries.values()):
            yield from below.walk()


def documents(text: str) -> tuple[Placed, ...]:
    """What the text says, document by document. Raises YamlError."""
    copying = _Copying()
    return tuple(
        copying.placed(node, node.start_mark.line + 1, 0) for node in nodes(text, MOST_VALUES)
    )


class _Copying:
    """Counts what it copies over all documents of a text."""

    def __init__(self) -> None:
        self._values = 0

    def placed(self, node: yaml.Node, line: int, level: int) -> Placed:
        self._values += 1
        if self._values > MOST_VALUES:
            sentence = f"has more than {MOST_VALUES} values, with its aliases followed"
            raise YamlError(sentence, node.start_mark)
        if level > MOST_LEVELS:
            sentence = f"is nested more than {MOST_LEVELS} levels deep"
            raise YamlError(sentence, node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return Placed(line, self._entries(node, level + 1))
        if isinstance(node, yaml.SequenceNode):
            inner = (self.placed(item, _line(item), level + 1) for item in node.value)
            return Placed(line, tuple(inner))
        return Placed(line, str(node.value))

    def _entries(self, node: yaml.MappingNode, level: int) -> Mapping[str, Placed]:
        merged: dict[str, Placed] = {}
        own: dict[str, Placed] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value == "<<" and key.style is None:
                several = isinstance(value, yaml.SequenceNode)
                for source in value.value if several else (value,):
                    # The first of several that has a key wins.
                    merged = {**self.placed(source, _line(source), level).entries, **merged}
            else:
                own[str(key.value)] = self.placed(value, _line(key), level)
        return {**merged, **own}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
