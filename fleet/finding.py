"""Finding: one place in somebody's file, what is wrong there, and what to write instead."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether something has to change; the words are those that compilers print."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, order=True)
class Finding:
    """Sorted by file and line, which counts from 1. ``why`` and ``fix`` are one sentence each."""

    file: str
    line: int
    rule: str
    severity: Severity
    why: str
    fix: str


def mended(findings: tuple[Finding, ...]) -> bool:
    """Whether nothing is left that has to change; notes may stay."""
    return all(finding.severity is Severity.NOTE for finding in findings)
