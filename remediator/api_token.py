"""Who may hold, release, reset and restart: whoever bears the token of ``api_token_file``.

The file is read anew for each request, so that the token is changed without a restart.
"""

import hmac
from http import HTTPStatus
from pathlib import Path

from fleet import secret_file
from fleet.secret_file import SecretError

SETTING = "api_token_file"


class NotAllowedError(Exception):
    """The request is not allowed; one sentence, and the HTTP status."""

    def __init__(self, why: str, status: HTTPStatus) -> None:
        super().__init__(why)
        self.status = status


def read(file: Path) -> str:
    """The token in the file, which is one word. Raises SecretError."""
    token = secret_file.token(file)
    if " " in token:
        raise SecretError(f"{file}: is more than one word")
    return token


def allow(header: str, file: Path | None) -> None:
    """Let an Authorization header pass that bears the token. Raises NotAllowedError."""
    if file is None:
        why = f"nobody may do that: fleet.yml sets no remediator.{SETTING}"
        raise NotAllowedError(why, HTTPStatus.FORBIDDEN)
    try:
        expected = read(file)
    except SecretError as error:
        why = f"{SETTING}: {error}"
        raise NotAllowedError(why, HTTPStatus.SERVICE_UNAVAILABLE) from None
    scheme, _, given = header.partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), expected.encode("ascii"))
    if not same or scheme.lower() != "bearer":
        why = f"the Authorization header does not bear the token of {SETTING}"
        raise NotAllowedError(why, HTTPStatus.UNAUTHORIZED)
