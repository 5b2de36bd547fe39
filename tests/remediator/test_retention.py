"""Rotation deletes what is ours and old, and nothing else."""

import threading
from pathlib import Path

import pytest

from remediator.exhibit import folder_name
from remediator.retention import forget_old
from tests.remediator.making import at


def attempt(root: Path, number: int) -> Path:
    folder = root / folder_name(at(number), "gpu-a", number)
    folder.mkdir()
    for name in ("about.json", "metrics-1.prom", "command-1-py-spy.txt"):
        (folder / name).write_text("x")
    return folder


def test_the_newest_stay_and_one_that_is_spared(tmp_path: Path) -> None:
    folders = [attempt(tmp_path, number) for number in range(5)]
    forget_old(tmp_path, 2, folders[1].name)
    assert sorted(tmp_path.iterdir()) == [folders[1], folders[3], folders[4]]


def test_what_is_not_ours_stays_and_does_not_count(tmp_path: Path) -> None:
    notes = tmp_path / "0-notes"
    notes.mkdir()
    (notes / "about.json").write_text("mine")
    (tmp_path / folder_name(at(-9), "gpu-a", 1)).write_text("a file of such a name")
    folders = [attempt(tmp_path, number) for number in (1, 2)]
    forget_old(tmp_path, 1, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["0-notes", folder_name(at(-9), "gpu-a", 1), folders[1].name]
    )
    assert (notes / "about.json").read_text() == "mine"


def test_a_folder_with_somebodys_notes_stays_with_them(tmp_path: Path) -> None:
    folders = [attempt(tmp_path, number) for number in (1, 2)]
    (folders[0] / "notes.txt").write_text("mine")
    (folders[0] / "deeper").mkdir()
    forget_old(tmp_path, 1, "")
    assert sorted(path.name for path in folders[0].iterdir()) == ["deeper", "notes.txt"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine = elsewhere / "about.json"
    mine.write_text("mine")
    root = tmp_path / "evidence"
    root.mkdir()
    (root / folder_name(at(0), "gpu-a", 0)).symlink_to(elsewhere)
    folders = [attempt(root, number) for number in (1, 2)]
    (folders[0] / "health.txt").symlink_to(mine)
    forget_old(root, 1, "")
    assert mine.read_text() == "mine"
    assert not folders[0].exists()


def test_two_may_forget_at_the_same_time(tmp_path: Path) -> None:
    for number in range(200):
        attempt(tmp_path, number)
    start = threading.Barrier(4)
    errors: list[OSError] = []

    def forget() -> None:
        start.wait(60.0)
        try:
            forget_old(tmp_path, 3, "")
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=forget) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        forget_old(tmp_path / "none", 1, "")
