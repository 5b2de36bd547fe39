from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.seal_key import SealKeyError, read


def test_a_file_that_is_not_there_is_made_for_its_owner_alone_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "resume.key"
    keys = read(file)
    assert len(keys) == 1
    assert file.stat().st_mode & 0o777 == 0o600
    assert read(file) == keys
    assert list(tmp_path.iterdir()) == [file]


def test_replicas_that_make_it_at_the_same_time_have_the_same_key(tmp_path: Path) -> None:
    file = tmp_path / "resume.key"
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(read, [file] * 64))) == 1
    assert list(tmp_path.iterdir()) == [file]


def test_keys_stand_in_the_order_of_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "resume.key"
    file.write_text(f"# new\n{'AB' * 32}\n\n{'01' * 32}\n")
    assert read(file) == (b"\xab" * 32, b"\x01" * 32)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "resume.key: holds no key", id="empty"),
        pytest.param(b"# none\n", "resume.key: holds no key", id="comments alone"),
        pytest.param(b"\n5ec7e7\n", "resume.key:2: is not a key of 64 hex", id="short"),
        pytest.param(b"z" * 64, "resume.key:1: is not a key of 64 hex", id="no digits"),
        pytest.param(b"5e c7" * 32, "resume.key:1: is not a key of 64 hex", id="spaces"),
        pytest.param(b"\xff" * 32, "resume.key: is not ASCII text", id="binary"),
    ],
)
def test_a_bad_file_is_told_with_its_place_and_never_a_key(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "resume.key"
    file.write_bytes(content)
    with pytest.raises(SealKeyError) as caught:
        read(file)
    assert said in str(caught.value)
    assert "5ec7" not in str(caught.value).replace(str(tmp_path), "")


def test_a_file_that_cannot_be_made_or_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(SealKeyError, match=r"resume\.key: cannot be made: No such file"):
        read(tmp_path / "nowhere" / "resume.key")
    with pytest.raises(SealKeyError, match="cannot be read: Is a directory"):
        read(tmp_path)
