"""The commands on a terminal: they ask, they colour, they show bars."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remediator.commands.exit_status import ExitStatus
from tests.remediator.site import Site, served, site, turning
from tests.remediator.stage import BACK

ROOT = Path(__file__).parents[3]
RESTART = ("restart", "gpu-a", "--why", "a new driver", "--by", "alice")


def typed(here: Site, url: str, *argv: str, answer: bytes = b"") -> tuple[int, str]:
    """Run a command on a terminal of its own; gives its exit status and what was seen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "remediator", *argv, "--url", url),
            *("--token-file", str(here.token_file)),
        ],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=here.token_file.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    seen = b""
    try:
        while True:
            if answer and b"[y/N]" in seen:
                os.write(ours, answer)
                answer = b""
            try:
                read = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            seen += read
        return process.wait(30), seen.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[tuple[Site, str]]:
    with site(tmp_path) as made, served(made.app) as url:
        yield made, url


def test_who_does_not_mean_it_restarts_nothing(here: tuple[Site, str]) -> None:
    status, seen = typed(*here, *RESTART, answer=b"\n")
    assert status == ExitStatus.STOPPED
    assert "its 1 gateway is asked to move its streams away first" in seen
    assert "Restart gpu-a? [y/N]" in seen
    assert "nothing was done" in seen
    assert here[0].stage.store.incidents.newest(1) == ()


def test_who_means_it_sees_bars_and_the_end(here: tuple[Site, str]) -> None:
    here[0].stage.witness.afterwards = BACK
    with turning(here[0].stage, 0.2):
        status, seen = typed(*here, *RESTART, answer=b"y\n")
    assert status == ExitStatus.OK
    assert "━" in seen
    assert "recovered: a new process" in seen


def test_with_yes_nobody_is_asked(here: tuple[Site, str]) -> None:
    here[0].stage.witness.afterwards = BACK
    with turning(here[0].stage):
        status, seen = typed(*here, *RESTART, "--yes")
    assert (status, "[y/N]" in seen) == (ExitStatus.OK, False)


def test_a_table_is_coloured_and_what_people_wrote_colours_nothing(
    here: tuple[Site, str],
) -> None:
    stage = here[0].stage
    stage.store.holds.add(
        "gpu-b", stage.clock.now.replace(hour=14), "x", "[red]a[/red] \x1b[31m", stage.clock()
    )
    status, seen = typed(*here, "status")
    assert status == ExitStatus.OK
    assert "\x1b[33mheld" in seen
    assert "[red]a[/red]" in re.sub(r"\s", "", seen)
    assert "\x1b[31m" not in seen
