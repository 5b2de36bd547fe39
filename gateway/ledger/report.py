"""The bill as a table: one line for each caller, model or day, in whole tokens."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rich.box import SIMPLE_HEAD
from rich.table import Table

COUNTS = (
    "requests",
    "complete",
    "partial",
    "open",
    "free",
    "prompt_tokens",
    "completion_tokens",
)


class By(StrEnum):
    """What the lines of a report are of."""

    CALLER = "caller"
    MODEL = "model"
    DAY = "day"


@dataclass
class Line:
    """One line. ``requests`` are those that are charged: complete, partial or open.

    ``free`` are those that were refused or failed. ``prompt_tokens`` has each prompt once.
    """

    of: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

    def add(self, **counts: int) -> None:
        """Count more."""
        for name, count in counts.items():
            self.counts[name] += count


def total(lines: Sequence[Line], by: Sequence[By]) -> Line:
    """The sum over all lines."""
    last = Line(("all", *("" for _ in by[1:])) if by else ())
    for line in lines:
        last.add(**line.counts)
    return last


def as_table(lines: Sequence[Line], by: Sequence[By]) -> Table:
    """For people, with a last line for all."""
    table = Table(box=SIMPLE_HEAD, show_footer=False)
    for one in by:
        table.add_column(one.value, overflow="fold")
    for name in COUNTS:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    for line in lines:
        table.add_row(*line.of, *(f"{line.counts[name]:,}" for name in COUNTS))
    if by:
        table.add_section()
        last = total(lines, by)
        table.add_row(*last.of, *(f"{last.counts[name]:,}" for name in COUNTS))
    return table


def as_csv(lines: Sequence[Line], by: Sequence[By]) -> str:
    """For spreadsheets: a header, then the lines, no sum."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*by, *COUNTS])
    for line in lines:
        writer.writerow([*map(_harmless, line.of), *(line.counts[name] for name in COUNTS)])
    return out.getvalue()


def as_json(lines: Sequence[Line], by: Sequence[By]) -> str:
    """For programs: a list of objects, no sum."""
    names = [name.value for name in by]
    objects = [dict(zip(names, line.of, strict=True)) | line.counts for line in lines]
    return json.dumps(objects, indent=2) + "\n"


def _harmless(text: str) -> str:
    """A client names its model; a spreadsheet must not take that for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text
