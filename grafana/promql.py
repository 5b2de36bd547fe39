"""What an expression in Prometheus' language mentions: metrics, their labels, grouping labels.

Not a parser (promtool is one): it assumes an expression that is valid.
"""

import re
from dataclasses import dataclass

TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
COMMENT = re.compile(r"#.*")
RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+-?\w+")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
SELECTOR = re.compile(
    r"(?<![\w:.])(?P<metric>[A-Za-z_:][\w:]*)\s*(?:\{(?P<matchers>[^}]*)\})?(?P<call>\s*\()?"
)
WORDS = frozenset(
    ("and", "or", "unless", "bool", "by", "without", "on", "ignoring", "group_left", "group_right")
)


@dataclass(frozen=True)
class Selector:
    """One metric in an expression, and the labels that it is chosen by."""

    metric: str
    labels: frozenset[str]


def selectors(expr: str) -> tuple[Selector, ...]:
    """Every metric that is selected, in the order of the text."""
    bare = GROUPING.sub(" ", RANGE.sub("", COMMENT.sub("", TEXT.sub('""', expr))))
    return tuple(
        Selector(found["metric"], frozenset(LABEL.findall(found["matchers"] or "")))
        for found in SELECTOR.finditer(bare)
        if found["call"] is None and found["metric"] not in WORDS
    )


def grouping_labels(expr: str) -> frozenset[str]:
    """Every label that is grouped or matched by."""
    groups = GROUPING.findall(TEXT.sub('""', expr))
    return frozenset(label for group in groups for label in re.findall(r"\w+", group))
