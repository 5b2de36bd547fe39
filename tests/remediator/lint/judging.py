"""Findings in a text, as the tests ask for them."""

from pathlib import PurePosixPath

from fleet.finding import Finding
from remediator.lint.source import Source, findings


def judged(name: str, text: str, load_seconds: float = 600.0) -> tuple[Finding, ...]:
    source = Source.of(name, PurePosixPath("/srv", name), text)
    return findings([source], load_seconds)


def rules(name: str, text: str, load_seconds: float = 600.0) -> list[str]:
    return [str(finding.rule) for finding in judged(name, text, load_seconds)]
