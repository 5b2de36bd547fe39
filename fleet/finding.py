"""Finding: one place in somebody's file, what is wrong there, and what to write instead."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether something has to change; the words are those that compilers print."""

    ERROR = "error"
    NOTE = "note"


class UnreadableError(Exception):
    """One sentence about a file; ``line`` counts from 1, None where it is about all of it."""

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.where = "" if line is None else f":{line}"


@dataclass(frozen=True, order=True)
class Finding:
    """Sorted by file and line, which counts from 1. ``why`` and ``fix`` are one sentence each.

    ``have`` is what is written and ``need`` what it has to be, where a rule is about two values.
    """

    file: str
    line: int
    rule: str
    severity: Severity
    why: str
    fix: str
    have: str = ""
    need: str = ""


def mended(findings: tuple[Finding, ...]) -> bool:
    """Whether nothing is left that has to change; notes may stay."""
    return all(finding.severity is Severity.NOTE for finding in findings)
