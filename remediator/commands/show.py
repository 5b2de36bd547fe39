"""How commands say things: tables on a terminal, plain lines of stable widths elsewhere.

What comes from the remediator was written by anybody: nothing in it controls the terminal.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP = "  "
STYLES: Mapping[str, str] = {
    "person": "bold red",
    "watch": "yellow",
    "none": "green",
    "✗": "bold red",
    "✓": "green",
}


@dataclass(frozen=True)
class Cell:
    """A text, and how it looks on a terminal: a key of STYLES."""

    text: str
    look: str = ""


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> None:
    """Print a table. The last column may be long."""
    cells = [[c if isinstance(c, Cell) else Cell(c) for c in row] for row in rows]
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        _plain(columns, cells)
        return
    made = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns[:-1]:
        made.add_column(column, overflow="fold")
    made.add_column(columns[-1], overflow="fold", ratio=1)
    for row in cells:
        made.add_row(*(Text(printable(c.text), STYLES.get(c.look, "")) for c in row))
    console.print(made)


def _plain(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    lines = [list(columns), *([printable(c.text).replace("\n", " ") for c in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print(GAP.join(padded).rstrip())


def say(text: str = "") -> None:
    """Print lines of text."""
    print(printable(text))


def as_json(value: object) -> None:
    """Print JSON."""
    print(json.dumps(value, indent=2))


def printable(text: str) -> str:
    """The text without what controls a terminal; lines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def moment(clock: str | None) -> str:
    """``2026-03-01T12:00:00Z`` as people read it, or a dash."""
    return clock.replace("T", " ").removesuffix("Z") if clock else "-"
