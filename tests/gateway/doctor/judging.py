"""Findings in texts, as the tests ask for them."""

from pathlib import PurePosixPath

from fleet.finding import Finding
from gateway.doctor.source import Source, findings


def judged(**texts: str) -> tuple[Finding, ...]:
    """The findings in files named as the arguments are, ``_`` for a dot."""
    named = {name.replace("__", "/").replace("_", "."): text for name, text in texts.items()}
    return judged_files(named)


def judged_files(texts: dict[str, str]) -> tuple[Finding, ...]:
    read = (Source.known(name, PurePosixPath("/srv", name), text) for name, text in texts.items())
    return findings([source for source in read if source is not None])


def rules(**texts: str) -> list[str]:
    return [str(finding.rule) for finding in judged(**texts)]
