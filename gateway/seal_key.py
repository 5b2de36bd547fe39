"""The file with the keys that resume tokens are sealed with.

One key a line, 64 hexadecimal digits. The first seals and all open: a new key is put first, and the
old one is taken out when no token of it is good any more. Replicas share the file or its text.
"""

import os
import secrets
from pathlib import Path

from gateway.seal import KEY_BYTES


class SealKeyError(Exception):
    """There is no key to seal with; one sentence that names the file and never a key."""


def read(file: Path) -> tuple[bytes, ...]:
    """Return the keys; a file that is not there is made, with one. Raises SealKeyError."""
    try:
        text = file.read_text(encoding="ascii")
    except FileNotFoundError:
        text = _made(file)
    except UnicodeDecodeError:
        raise SealKeyError(f"{file}: is not ASCII text") from None
    except OSError as error:
        raise SealKeyError(f"{file}: cannot be read: {error.strerror}") from None
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    keys = tuple(_key(file, n, line) for n, line in lines if line and not line.startswith("#"))
    if not keys:
        raise SealKeyError(f"{file}: holds no key")
    return keys


def _key(file: Path, number: int, line: str) -> bytes:
    try:
        key = bytes.fromhex(line)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES or len(line) != 2 * KEY_BYTES:
        raise SealKeyError(f"{file}:{number}: is not a key of {2 * KEY_BYTES} hexadecimal digits")
    return key


def _made(file: Path) -> str:
    """Make the file, whole or not at all, and return the text of whoever made it first."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(opened, "w", encoding="ascii") as writing:
                writing.write(secrets.token_hex(KEY_BYTES) + "\n")
                writing.flush()
                os.fsync(writing.fileno())
            _link(draft, file)
        finally:
            draft.unlink()
        return file.read_text(encoding="ascii")
    except OSError as error:
        raise SealKeyError(f"{file}: cannot be made: {error.strerror}") from None


def _link(draft: Path, file: Path) -> None:
    try:
        file.hardlink_to(draft)
    except FileExistsError:
        return  # another replica was first
