"""Secrets from files: what is taken for one, and one sentence for what is none."""

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.secret_file import SecretError, password, token

BOTH = pytest.mark.parametrize("read", [token, password])


def refused(read: Callable[[Path], str], file: Path) -> str:
    with pytest.raises(SecretError) as error:
        read(file)
    said = str(error.value)
    assert said.startswith(f"{file}: ")
    assert "s3cr" not in "".join(traceback.format_exception(error.value))
    return said.removeprefix(f"{file}: ")


@BOTH
def test_a_file_that_cannot_be_read_is_said_with_the_reason(
    read: Callable[[Path], str], tmp_path: Path
) -> None:
    assert refused(read, tmp_path / "none") == "cannot be read: No such file or directory"
    assert refused(read, tmp_path) == "cannot be read: Is a directory"


@BOTH
@pytest.mark.parametrize("content", [b"", b" \n", b"\r\n\t"])
def test_white_space_is_no_secret(
    read: Callable[[Path], str], content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    assert refused(read, file) == "is empty"


@pytest.mark.parametrize(
    "content",
    ["s3crét".encode(), b"s3cret\ns3cret", b"s3cret\r\nX-Evil: 1", b"s3cr\x00t", b"s3cret\xff"],
)
def test_a_token_is_one_line_of_ascii_and_nothing_of_another_is_said(
    content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    assert refused(token, file) == "is not one line of ASCII text"


def test_a_password_is_text_and_nothing_of_what_is_none_is_said(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"s3cret\xff")
    assert refused(password, file) == "is not UTF-8 text"
    file.write_text("sécret\nof two lines\n")
    assert password(file) == "sécret\nof two lines"


@BOTH
@pytest.mark.parametrize("written", ["sk-1", "sk-1 \n", "  sk-1\r\n"])
def test_the_white_space_around_a_secret_is_none_of_it(
    read: Callable[[Path], str], written: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(written.encode())
    assert read(file) == "sk-1"
