"""The page of commands: its tables are the code's, its examples are what is really said."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import requests

from fleet.settings import Mode
from remediator.__main__ import COMMANDS, main
from remediator.commands.exit_status import ExitStatus
from remediator.commands.options import EPILOG, TOKEN_VARIABLE, URL, URL_VARIABLE, parser
from remediator.incident import AttemptState, ShadowOutcome
from remediator.restart import Outcome
from tests.remediator import making
from tests.remediator.making import at
from tests.remediator.site import TOKEN, Site, served, site, turning
from tests.remediator.stage import BACK, planned

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()


def section(heading: str) -> str:
    return PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]


def test_every_command_is_documented() -> None:
    table = PAGE.split("| command |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)", table, re.MULTILINE)
    assert list(dict.fromkeys(rows)) == list(COMMANDS)


def test_every_exit_status_is_documented_as_the_help_says_it() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", section("Exit statuses"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(ExitStatus)
    assert re.findall(r"^ +(\d+)  (.+)$", EPILOG, re.MULTILINE) == rows


def test_every_common_flag_is_documented_with_its_default() -> None:
    flags = [a.option_strings[-1] for a in parser("x", "", reads=True)._actions[1:]]
    assert re.findall(r"^\| `(--[\w.-]+)` \|", section("Flags"), re.MULTILINE) == flags
    assert all(f"`{word}`" in section("Flags") for word in (URL, URL_VARIABLE, TOKEN_VARIABLE))


def examples(heading: str) -> list[tuple[str, str]]:
    """Each command of a section's console, and what it says there."""
    console = section(heading).split("```console\n")[1].split("```")[0]
    blocks = re.split(r"^\$ vllm-remediator ", console, flags=re.MULTILINE)[1:]
    return [(block.partition("\n")[0], block.partition("\n")[2]) for block in blocks]


@pytest.fixture
def restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """gpu-a has been restarted a moment ago."""
    monkeypatch.chdir(tmp_path)
    with site(tmp_path) as made, served(made.app) as url:
        monkeypatch.setenv(URL_VARIABLE, url)
        monkeypatch.setenv(TOKEN_VARIABLE, str(made.token_file))
        stage = made.stage
        stage.restarter.outcome = Outcome(
            ok=True,
            why="the command ended with status 0",
            exit_status=0,
            output="Stopping gpu-a.service\n",
        )
        stage.evidence.where = "somewhere"
        stage.witness.afterwards = BACK
        stage.tell()
        stage.pass_(60)
        yield made


def test_the_examples_are_what_is_really_said(
    restarted: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, said in examples("How it stands"):
        if words.startswith("restart"):
            with turning(restarted.stage):
                status = main(shlex.split(words))
            expected = ExitStatus.REFUSED
        else:
            status, expected = main(shlex.split(words)), ExitStatus.OK
        told = capsys.readouterr()
        assert status == expected, words
        assert sorted((told.out + told.err).splitlines()) == sorted(said.splitlines()), words


CASES = [
    ("gpu-a", ShadowOutcome.CAME_BACK, 41),
    ("gpu-a", ShadowOutcome.STAYED_STUCK, 86400),
    ("gpu-b", ShadowOutcome.RESTARTED, 2340),
    ("gpu-b", ShadowOutcome.RESTARTED, 960),
]


def test_the_report_is_what_is_really_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with site(tmp_path, mode=Mode.SHADOW) as made, served(made.app) as url:
        monkeypatch.setenv(URL_VARIABLE, url)
        store = made.stage.store
        for number, (backend, outcome, seconds) in enumerate(CASES):
            store.incidents.note([making.alert(fingerprint=f"f{number}", backend=backend)], at(0))
            incident = store.incidents.newest(1)[0]
            when = at(-200000 + number * 1000)
            attempt = planned(store, incident, Mode.SHADOW, making.reading(), when)
            attempt = store.attempts.advance(
                attempt, AttemptState.STARTING, when + timedelta(seconds=9)
            )
            end = when + timedelta(seconds=seconds)
            store.attempts.advance(attempt, AttemptState.STILL_STUCK, end, shadow_outcome=outcome)
        ((words, said),) = examples("From shadow to act")
        assert main(shlex.split(words)) == ExitStatus.OK
    assert capsys.readouterr().out == said


def test_the_lines_for_a_shell_hold_and_release(restarted: Site, tmp_path: Path) -> None:
    script = section("Batch jobs").split("```sh\n")[1].split("```")[0]
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "evaluate").write_text("#!/bin/sh\ncurl -sf $REMEDIATOR/api/holds\n")
    (tmp_path / "evaluate").chmod(0o755)
    with served(restarted.app) as url:
        ended = subprocess.run(
            ["sh", "-ec", script],
            cwd=tmp_path,
            env=os.environ | {"REMEDIATOR": url},
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    assert ended.stdout.count('"by":"nightly"') == 3  # held, seen meanwhile, released
    assert restarted.get("/api/holds") == []


def test_the_lines_for_python_hold_and_release(restarted: Site) -> None:
    code = section("Batch jobs").split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(code, names)
    with served(restarted.app) as url:
        hold = {"backend": "gpu-b", "for": "3h", "by": "nightly", "why": "evaluation"}
        with names["held"](url, TOKEN, **hold):  # type: ignore[operator]
            (held,) = requests.get(f"{url}/api/holds", timeout=10).json()
            assert held["by"] == "nightly"
        assert requests.get(f"{url}/api/holds", timeout=10).json() == []
