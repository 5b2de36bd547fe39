"""A secret from its own file; no error and no log ever holds it.

Whoever needs it reads it anew, so that it is changed under a running program.
"""

from pathlib import Path


class SecretError(Exception):
    """The file holds no secret that can be used; one sentence that begins with its path."""


def token(file: Path) -> str:
    """What an Authorization header can bear: one line of ASCII text. Raises SecretError."""
    secret = _text(file, "one line of ASCII text")
    if not secret.isascii() or not secret.isprintable():
        raise SecretError(f"{file}: is not one line of ASCII text")
    return secret


def password(file: Path) -> str:
    """Any text in UTF-8, as Alertmanager reads its own. Raises SecretError."""
    return _text(file, "UTF-8 text")


def _text(file: Path, expected: str) -> str:
    """The text without the white space around it."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SecretError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecretError(f"{file}: is not {expected}") from None
    if not text:
        raise SecretError(f"{file}: is empty")
    return text
