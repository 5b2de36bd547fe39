"""The bearer token that Alertmanager sends, kept in a file and read anew for each notification."""

import hmac
from pathlib import Path


class TokenError(Exception):
    """There is no token to compare with; the text is one sentence that names the file."""


def token(file: Path | None) -> str:
    """The token in the file. Raises TokenError where it cannot be read, is empty or not ASCII."""
    if file is None:
        raise TokenError("token_file: is not set")
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise TokenError(f"token_file: {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TokenError(f"token_file: {file} is not ASCII text") from None
    if not text:
        raise TokenError(f"token_file: {file} is empty")
    return text


def bears(header: str, expected: str) -> bool:
    """Whether an Authorization header bears the token; takes as long for every wrong one."""
    scheme, _, given = header.partition(" ")
    same = hmac.compare_digest(
        given.strip().encode("utf-8", errors="replace"), expected.encode("ascii")
    )
    return same and scheme.lower() == "bearer"
