"""A secret from the file that fleet.yml names; no error and no log ever holds it."""

from pathlib import Path


class SecretError(Exception):
    """The file holds no secret; one sentence with its place."""


def read(file: Path) -> str:
    """The one line of it. Raises SecretError."""
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SecretError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecretError(f"{file}: is not one line of ASCII text") from None
    if not secret:
        raise SecretError(f"{file}: is empty")
    if not secret.isascii() or not secret.isprintable():
        raise SecretError(f"{file}: is not one line of ASCII text")
    return secret
