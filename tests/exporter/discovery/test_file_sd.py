"""file_sd files on a real disk: which are read, and what holds when one of them is bad."""

import json
import os
from pathlib import Path

import pytest

from exporter.discovery import file_sd
from exporter.discovery.file_sd import FileSD
from exporter.discovery.target import Finding, Target
from fleet.discovery import Files


def write(file: Path, *targets: str) -> None:
    file.write_text(json.dumps([{"targets": targets}]))


def hosts(finding: Finding) -> list[str]:
    return [target.host for target in finding.targets]


def test_files_are_read_by_pattern_and_by_name(tmp_path: Path) -> None:
    write(tmp_path / "vllm-b.json", "b1:1", "b2:1")
    write(tmp_path / "vllm-a.json", "a:1")
    write(tmp_path / "other.json", "other:1")
    (tmp_path / "more.yml").write_text("- targets: [y:1]")
    (tmp_path / "vllm-c.txt").write_text("no")
    found = FileSD(Files((tmp_path / "vllm-*.json", tmp_path / "more.yml"))).look()
    assert hosts(found) == ["a", "b1", "b2", "y"]
    assert (found.failures, found.notes) == ((), ())


def test_a_star_is_all_that_is_special_in_a_name(tmp_path: Path) -> None:
    write(tmp_path / "t[1]x.json", "a:1")
    write(tmp_path / "t1x.json", "b:1")
    write(tmp_path / "t?.json", "c:1")
    write(tmp_path / "t2.json", "d:1")
    assert hosts(FileSD(Files((tmp_path / "t[1]*.json",))).look()) == ["a"]
    assert hosts(FileSD(Files((tmp_path / "t?*.json",))).look()) == ["c"]


def test_a_file_of_two_patterns_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    assert hosts(FileSD(Files((tmp_path / "*.json", tmp_path / "a.json"))).look()) == ["a"]


BAD = {
    "half written": (b'[{"targets": ["b', "a.json:1:15: is not valid JSON: unterminated string"),
    "empty": (b"", "a.json:1:1: is not valid JSON: expecting value"),
    "no text": (b"\xff\xfe", "a.json: cannot be read: is not UTF-8 text"),
    "too large": (b" " * 101, "a.json: holds more than 100 bytes"),
}


@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_keeps_what_it_said_and_no_other_waits_for_it(
    content: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sd, "MAX_BYTES", 100)
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    files = FileSD(Files((tmp_path / "*.json",)))
    files.look()
    (tmp_path / "a.json").write_bytes(content)
    write(tmp_path / "b.json", "c:1")
    found = files.look()
    assert hosts(found) == ["a", "c"]
    (failure,) = found.failures
    assert failure.startswith(f"{tmp_path}/{said}")
    write(tmp_path / "a.json", "d:1")
    assert files.look() == Finding((Target("d", 1), Target("c", 1)))


def test_a_folder_in_a_files_place_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    found = FileSD(Files((tmp_path / "*.json",))).look()
    assert found.failures == (f"{tmp_path}/a.json: is not a file",)


def test_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    found = FileSD(Files((tmp_path / "a.json",))).look()
    assert found.failures == (f"{tmp_path}/a.json: is not a file",)


def test_a_file_that_is_gone_has_no_targets_any_more(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.yml", "b:1")
    files = FileSD(Files((tmp_path / "*.json", tmp_path / "b.yml")))
    assert hosts(files.look()) == ["a", "b"]
    (tmp_path / "a.json").unlink()
    (tmp_path / "b.yml").unlink()
    gone = files.look()
    assert gone == Finding(notes=(f"{tmp_path}/b.yml: there is no such file",))


def test_a_folder_that_is_gone_is_not_the_same_as_nobody(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    write(tmp_path / "targets/a.json", "a:1")
    by_pattern = FileSD(Files((tmp_path / "targets/*.json",)))
    by_name = FileSD(Files((tmp_path / "targets/a.json",)))
    by_pattern.look()
    by_name.look()
    (tmp_path / "targets").rename(tmp_path / "away")
    for files in (by_pattern, by_name):
        found = files.look()
        assert hosts(found) == ["a"]
        sentence = f"{tmp_path}/targets: cannot be read: No such file or directory"
        assert found.failures == (sentence,)


def test_a_change_is_seen_whatever_the_times_say(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write(file, "a:1")
    os.utime(file, (1e9, 1e9))
    files = FileSD(Files((file,)))
    files.look()
    write(file, "b:1")
    os.utime(file, (1e9, 1e9))
    assert hosts(files.look()) == ["b"]


def test_a_mounted_configmap_is_followed(tmp_path: Path) -> None:
    """Kubernetes links t.json -> ..data/t.json and ..data -> a folder it replaces."""
    for folder, host in (("..1", "a:1"), ("..2", "b:1")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "t.json", host)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "t.json").symlink_to("..data/t.json")
    files = FileSD(Files((tmp_path / "*.json",)))
    assert hosts(files.look()) == ["a"]
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert hosts(files.look()) == ["b"]


def test_a_successor_knows_what_its_predecessor_read(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    before = FileSD(Files((tmp_path / "*.json",)))
    before.look()
    (tmp_path / "a.json").write_text("half")
    successor = FileSD(Files((tmp_path / "a.json",)), before.known)
    assert successor.so_far() == (Target("a", 1),)
    assert hosts(successor.look()) == ["a"]
