"""Findings, for people, for programs, and for GitHub's annotations."""

import json
from collections.abc import Sequence
from enum import StrEnum

from fleet.finding import Finding, Severity


class Format(StrEnum):
    """How to print findings."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def as_text(findings: Sequence[Finding]) -> str:
    """``file:line: severity: why [rule]`` as compilers print it, and the fix below."""
    return "\n".join(
        f"{each.file}:{each.line}: {each.severity}: {each.why} [{each.rule}]\n    fix: {each.fix}"
        for each in findings
    )


def as_json(
    findings: Sequence[Finding], problems: Sequence[str], *, looked_at: int, not_known: int
) -> str:
    """One object with everything."""
    return json.dumps(
        {
            "findings": [_entries(each) for each in findings],
            "problems": list(problems),
            "files_looked_at": looked_at,
            "files_not_known": not_known,
        },
        indent=2,
    )


def _entries(finding: Finding) -> dict[str, str | int]:
    entries: dict[str, str | int] = {
        "file": finding.file,
        "line": finding.line,
        "rule": str(finding.rule),
        "severity": str(finding.severity),
        "why": finding.why,
        "fix": finding.fix,
    }
    if finding.need:
        entries |= {"have": finding.have, "need": finding.need}
    return entries


def as_github(findings: Sequence[Finding]) -> str:
    """Workflow commands, which GitHub shows at the line (its "Workflow commands" page)."""
    return "\n".join(
        f"::{'error' if each.severity is Severity.ERROR else 'notice'} "
        f"file={_property(each.file)},line={each.line},title={_property(each.rule)}"
        f"::{_message(f'{each.why}. Fix: {each.fix}')}"
        for each in findings
    )


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def summary(findings: Sequence[Finding], *, looked_at: int, not_known: int) -> str:
    """One line: how much was found in how many files, and how many are of no known kind."""
    errors = sum(each.severity is Severity.ERROR for each in findings)
    counted = f"{_many(errors, 'error')}, {_many(len(findings) - errors, 'note')}"
    rest = f"; {_many(not_known, 'file')} of no known kind" if not_known else ""
    return f"{counted} in {_many(looked_at, 'file')}{rest}"


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
