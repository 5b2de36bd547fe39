"""YAML in which a key that is written twice is a mistake; every mistake is one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml


class YamlError(Exception):
    """A text is not valid YAML; ``line`` and ``column`` count from 1, None where not known."""

    def __init__(self, sentence: str, mark: yaml.Mark | None = None) -> None:
        super().__init__(sentence)
        self.line = mark.line + 1 if mark else None
        self.column = mark.column + 1 if mark else None

    @property
    def where(self) -> str:
        """``:line:column``, to be put behind the file's name."""
        return "" if self.line is None else f":{self.line}:{self.column}"


class _NoKeyTwice(yaml.composer.Composer):
    """What a merge (``<<: *a``) brings in may be overwritten: that is what merges are for."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 -- PyYAML's
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.composer.ComposerError(
                        problem=f"the key {key.value!r} stands there twice",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        return node


class Values(_NoKeyTwice, yaml.SafeLoader):
    """Scalars are what they look like: numbers, dates, off."""


class Texts(_NoKeyTwice, yaml.BaseLoader):
    """All scalars are text, as a program reads them that expects nothing but text."""


def tree(text: str, loader: type[Values | Texts]) -> object:
    """What the text says. Raises YamlError."""
    with _one_sentence():
        return yaml.load(text, Loader=loader)  # noqa: S506 -- safe ones


def nodes(text: str, most: int) -> tuple[yaml.Node, ...]:
    """The documents of the text, as PyYAML's nodes, which know their places.

    Raises YamlError, also where there are more than ``most`` nodes: 100,000 take 8 seconds.
    """

    class Counted(Texts):
        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.left = most

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 -- PyYAML's
            self.left -= 1
            if self.left < 0:
                raise yaml.composer.ComposerError(
                    problem=f"there are more than {most} values", problem_mark=self.get_mark()
                )
            return super().compose_node(parent, index)

    with _one_sentence():
        return tuple(node for node in yaml.compose_all(text, Loader=Counted) if node is not None)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """PyYAML's mistakes as a YamlError."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        sentence = f"is not valid YAML: {error.problem}"
        raise YamlError(sentence, error.problem_mark) from None
    except yaml.YAMLError as error:
        raise YamlError(f"is not valid YAML: {_one_line(error)}") from None
    except RecursionError:
        raise YamlError("is not valid YAML: it is nested too deeply") from None
    except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # PyYAML's own, on a date, number or tagged value that is none.
        raise YamlError(f"is not valid YAML: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
