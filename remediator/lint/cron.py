"""Crontabs: those of users, and /etc/crontab and /etc/cron.d/*, which name a user in each line.

crontab(5): five fields or one of ``@hourly`` and the like, then the command; NAME=VALUE lines set
the environment. A program that a line names is not opened.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath

from fleet.finding import Finding
from remediator.lint import scheduled
from remediator.lint.rule import Place

_FIELD = r"[*0-9A-Za-z,/~-]+"
LINE = re.compile(
    rf"\s*(?P<when>@(?:reboot|yearly|annually|monthly|weekly|daily|midnight|hourly)"
    rf"|[*0-9]\S*(?:\s+{_FIELD}){{4}})\s+(?P<command>\S.*)"
)
SETTING = re.compile(r"\s*[\"']?[A-Za-z_]\w*[\"']?\s*=")


def is_crontab(text: str) -> bool:
    """Whether a text has cron lines and nothing that is none."""
    lines = [line.rstrip() for line in text.split("\n")]
    lines = [line for line in lines if line and not _comment(line)]
    jobs = [line for line in lines if LINE.fullmatch(line)]
    return bool(jobs) and all(LINE.fullmatch(line) or SETTING.match(line) for line in lines)


def _comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def findings(file: str, path: PurePath, text: str, known: frozenset[str]) -> Iterator[Finding]:
    """What in this crontab may restart a server; ``known`` are names of servers."""
    has_users = path.parent.name == "cron.d" or path.parts[-2:] == ("etc", "crontab")
    for number, line in enumerate(text.split("\n"), 1):
        job = LINE.fullmatch(line.rstrip())
        if job is None:
            continue
        command = job["command"]
        if has_users:
            command = command.split(maxsplit=1)[-1]
        when = f"at {' '.join(job['when'].split())!r}"
        yield from scheduled.findings(Place(file, number), when, command, known)
