import logging
import os
from hashlib import sha256
from pathlib import Path

import pytest

from gateway import new_key
from gateway.keys import Caller, Keys, KeysError, line, parse

KEY = "vlg-one"
OTHER = "vlg-two"


class Clock:
    """Monotonic seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text(
        f"# ours\n\n{line('alice', KEY)}\n  bob : {sha256(OTHER.encode()).hexdigest()}\n"
    )
    return file


def test_a_key_names_its_caller_and_no_other_key_does(file: Path) -> None:
    keys = Keys(file)
    assert keys.caller(f"Bearer {KEY}") == Caller("alice", "alice")
    assert keys.caller(f"bearer  {OTHER} ") == Caller("bob", "bob")
    digest = sha256(KEY.encode()).hexdigest()
    for header in (
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {KEY}x",
        KEY,
        f"Basic {KEY}",
        f"Bearer {digest}",
    ):
        assert keys.caller(header) is None, header


def test_two_keys_of_one_name_are_one_caller() -> None:
    callers = parse(f"{line('alice', KEY)}\n{line('alice', OTHER)}\n", "keys")
    assert set(callers.values()) == {Caller("alice", "alice")}


def test_without_a_file_everybody_is_a_caller_by_the_key_that_is_sent() -> None:
    keys = Keys(None)
    one, two = keys.caller(f"Bearer {KEY}"), keys.caller(f"Bearer {OTHER}")
    assert one is not None
    assert one != two
    assert one == Keys(None).caller(f"Bearer {KEY}")
    assert KEY not in one.id
    assert keys.caller("") == keys.caller("Basic abc") == Caller("anonymous", "anonymous")


def test_a_changed_file_counts_after_a_second_at_most(file: Path) -> None:
    clock = Clock()
    keys = Keys(file, clock)
    file.write_text(line("carol", "vlg-three"))
    clock.now = 0.9
    assert keys.caller(f"Bearer {KEY}") is not None
    clock.now = 1.0
    assert keys.caller(f"Bearer {KEY}") is None
    assert keys.caller("Bearer vlg-three") == Caller("carol", "carol")


def test_a_caller_is_known_as_long_as_one_of_its_keys_is(file: Path) -> None:
    clock = Clock()
    keys = Keys(file, clock)
    assert keys.knows("alice")
    assert not keys.knows("carol")
    file.write_text(line("carol", "vlg-three"))
    clock.now = 1.0
    assert not keys.knows("alice")
    assert keys.knows("carol")
    assert Keys(None).knows("whoever")


def test_a_file_of_the_same_size_and_second_is_seen_to_have_changed(file: Path) -> None:
    clock = Clock()
    keys = Keys(file, clock)
    before = file.stat()
    file.write_text(file.read_text().replace("alice", "alina"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    clock.now = 1.0
    assert keys.caller(f"Bearer {KEY}") == Caller("alina", "alina")


def test_a_file_that_goes_bad_is_told_once_and_the_last_keys_count(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    keys = Keys(file, clock)
    file.write_text(f"alice:{KEY}\n")
    for now in (1.0, 2.0, 3.0):
        clock.now = now
        assert keys.caller(f"Bearer {KEY}") is not None
    assert len(caplog.records) == 1
    assert "keys:1" in caplog.text
    assert KEY not in caplog.text


def test_a_file_that_goes_away_and_comes_back_is_read_again(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    keys = Keys(file, clock)
    text = file.read_text()
    file.unlink()
    clock.now = 1.0
    assert keys.caller(f"Bearer {KEY}") is not None
    file.write_text(text.replace("alice", "carol"))
    clock.now = 2.0
    assert keys.caller(f"Bearer {KEY}") == Caller("carol", "carol")
    assert [record.message.split()[0] for record in caplog.records] == [
        "event=keys_not_read",
        "event=keys_read",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("\nalice\n", "keys:2: is not a name, a colon and", id="no hash"),
        pytest.param(f"alice:{KEY}", "keys:1: is not a name, a colon and", id="the key itself"),
        pytest.param(f"a b:{'0' * 64}", "keys:1: the name must be", id="a space in the name"),
        pytest.param(f":{'0' * 64}", "keys:1: the name must be", id="no name"),
        pytest.param(
            f"a:{'0' * 64}\nb:{'0' * 64}", "keys:2: b's key stands there already", id="twice"
        ),
    ],
)
def test_a_bad_line_is_told_with_its_place_and_never_the_key(text: str, said: str) -> None:
    with pytest.raises(KeysError) as caught:
        parse(text, "keys")
    assert str(caught.value).startswith(said)
    assert KEY not in str(caught.value)


def test_a_file_that_cannot_be_read_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match="cannot be read: No such file"):
        Keys(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(KeysError, match="is not ASCII text"):
        Keys(tmp_path / "binary")


def test_a_new_key_is_let_in_by_the_line_that_is_printed_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new_key.main(["new", "alice"]) == 0
    shown = capsys.readouterr().out.splitlines()
    key, made = shown[1].strip(), shown[3].strip()
    assert key not in made
    (tmp_path / "keys").write_text(made)
    assert Keys(tmp_path / "keys").caller(f"Bearer {key}") == Caller("alice", "alice")


def test_new_keys_are_never_alike(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        new_key.main(["new", "alice"])
    shown = [text for text in capsys.readouterr().out.split() if text.startswith("vlg-")]
    assert len(set(shown)) == 20
    assert min(map(len, shown)) >= 47


def test_a_name_that_no_line_could_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        new_key.main(["new", "a:b"])
    assert caught.value.code == 2
    assert "'a:b' is not 1 to 64 letters" in capsys.readouterr().err
