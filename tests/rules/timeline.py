"""Series over time in promtool's notation, and one promtool run over many of them.

Every scenario has labels of its own, so that all of them lie beside each other in one test of one
file: promtool starts once, and evaluates every rule once a moment for all.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from demo import parts

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]

MISSING = "_"
STALE = "stale"


def key(name: str, labels: Mapping[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))


@dataclass
class Timeline:
    """What a Prometheus stored, tick by tick. What a scrape shows no more is marked stale."""

    ticks: int = 0
    values: dict[Key, list[str]] = field(default_factory=dict)

    def add(self, samples: Mapping[Key, float]) -> None:
        """One more tick; an empty one is what a failed scrape leaves."""
        for series, value in samples.items():
            self.values.setdefault(series, [MISSING] * self.ticks).append(number(value))
        for series, known in self.values.items():
            if series not in samples:
                known.append(STALE if known[-1] not in (STALE, MISSING) else MISSING)
        self.ticks += 1

    def input_series(self) -> Iterable[dict[str, str]]:
        for (name, labels), values in self.values.items():
            inside = ", ".join(f"{label}={json.dumps(value)}" for label, value in labels)
            yield {"series": f"{name}{{{inside}}}", "values": " ".join(values)}


def number(value: float) -> str:
    """A value in full: promtool takes the + of an exponent for a step."""
    return format(Decimal(repr(float(value))), "f")


@dataclass(frozen=True)
class Question:
    """An expression at a moment in seconds, and the samples it has to give: labels to value."""

    expr: str
    at: float
    expected: tuple[tuple[str, float], ...] = ()

    def test(self) -> dict[str, Any]:
        samples = [{"labels": labels, "value": value} for labels, value in self.expected]
        return {"expr": self.expr, "eval_time": duration(self.at), "exp_samples": samples}


def duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def wrong_answers(
    timelines: Iterable[Timeline],
    questions: Iterable[Question],
    *,
    rules: Sequence[Path],
    tick: float,
    folder: Path,
) -> Mapping[str, str]:
    """Every expression that did not give what was expected, and what promtool said of it."""
    groups = [
        group["name"] for file in rules for group in yaml.safe_load(file.read_text())["groups"]
    ]
    test = {
        "interval": duration(tick),
        "input_series": [one for timeline in timelines for one in timeline.input_series()],
        "promql_expr_test": [question.test() for question in questions],
    }
    file = folder / "test.yml"
    content = {
        "rule_files": [str(path) for path in rules],
        "evaluation_interval": "15s",
        "group_eval_order": groups,
        "tests": [test],
    }
    file.write_text(yaml.safe_dump(content, sort_keys=False, width=1_000_000))
    done = subprocess.run(
        [parts.find().promtool, "test", "rules", file],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = done.stdout + done.stderr
    wrong = {
        json.loads(f'"{found["expr"]}"'): found[0]
        for found in re.finditer(
            r'expr: "(?P<expr>(?:[^"\\]|\\.)*)", time: .*?(?=\n    \w|\Z)', said, re.DOTALL
        )
    }
    assert (done.returncode == 0) is not bool(wrong), said
    return wrong
