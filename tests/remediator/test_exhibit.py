"""Reading evidence back, also where somebody has laid traps in the folder."""

import os
from pathlib import Path

import pytest

from remediator.exhibit import (
    Exhibit,
    Exhibits,
    NoExhibitError,
    command_name,
    folder_name,
    is_file_of_evidence,
    is_folder_of_evidence,
)
from tests.remediator.making import at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / folder_name(at(0), "gpu-a", 7)
    made.mkdir()
    (tmp_path / "secret").write_text("a secret")
    return made


def test_the_files_come_in_the_order_in_which_one_reads_them(folder: Path) -> None:
    names = ("command-10-a.txt", "command-2-b.txt", "metrics-1.prom", "health.txt", "about.json")
    for name in names:
        (folder / name).write_text("abc")
    assert Exhibits(folder).files() == tuple(Exhibit(name, 3) for name in reversed(names))


def test_the_text_is_bounded_and_controls_no_terminal(folder: Path) -> None:
    (folder / "health.txt").write_bytes(b"\x1b[31mred\xff\tand\nmore")
    assert Exhibits(folder).text("health.txt") == "\ufffd[31mred\ufffd\tand\nmore"
    assert Exhibits(folder).text("health.txt", most=8) == "\ufffd[31mred"


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "secret", "", ".", "..", "./health.txt", "health.txt\0"]
)
def test_only_the_names_of_evidence_are_ever_opened(folder: Path, name: str) -> None:
    with pytest.raises(NoExhibitError, match="is no file of evidence"):
        Exhibits(folder).text(name)


def test_a_link_is_neither_listed_nor_followed(folder: Path) -> None:
    (folder / "health.txt").symlink_to(folder.parent / "secret")
    assert Exhibits(folder).files() == ()
    with pytest.raises(NoExhibitError, match="cannot be read"):
        Exhibits(folder).text("health.txt")


def test_a_pipe_holds_nobody(folder: Path) -> None:
    os.mkfifo(folder / "health.txt")
    assert Exhibits(folder).files() == ()
    with pytest.raises(NoExhibitError, match="is no plain file"):
        Exhibits(folder).text("health.txt")


def test_a_folder_that_is_a_link_is_not_followed(folder: Path) -> None:
    link = folder.parent / folder_name(at(0), "gpu-a", 8)
    link.symlink_to(folder)
    with pytest.raises(NoExhibitError, match="cannot be read: "):
        Exhibits(link).files()


def test_evidence_that_was_rotated_away_is_one_sentence(folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(NoExhibitError, match="cannot be read: No such file or directory"):
        Exhibits(folder).files()


def test_a_folder_that_is_none_of_evidence_is_not_looked_into(tmp_path: Path) -> None:
    with pytest.raises(NoExhibitError, match="is no folder of evidence"):
        Exhibits(tmp_path).files()


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("py-spy", "command-1-py-spy.txt"),
        ("/usr/bin/nvidia-smi", "command-1-nvidia-smi.txt"),
        ("../../x", "command-1-x.txt"),
        ("a b\0\n", "command-1-a_b__.txt"),
        ("/", "command-1.txt"),
        ("x" * 100, f"command-1-{'x' * 40}.txt"),
    ],
)
def test_a_commands_file_is_named_after_its_program(program: str, name: str) -> None:
    assert command_name(1, program) == name
    assert is_file_of_evidence(name)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("20260301T120000Z-gpu-a-7", True),
        ("20260301T120000Z-gpu-a-7.bak", False),
        ("20260301T120000Z-gpu-a-7\n", False),
        ("20260301T120000Z--7", False),
        ("20260301-gpu-a-7", False),
        ("notes", False),
        ("\u0662\u0660260301T120000Z-gpu-a-7", False),
    ],
)
def test_a_folder_of_evidence_is_known_by_its_name(name: str, ours: bool) -> None:
    assert is_folder_of_evidence(name) is ours
