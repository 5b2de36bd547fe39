"""Who may notify: a bearer token or a user with a password, kept in files.

The files are read anew for each notification, so that a secret is changed without a restart.
"""

import base64
import binascii
import hmac
from pathlib import Path

from fleet import secret_file
from fleet.secret_file import SecretError
from fleet.settings import BasicAuth, RemediatorSettings

REALM = "vllm-remediator"


class CredentialsError(Exception):
    """There is no secret to compare with; the text is one sentence that names setting and file."""


def check(settings: RemediatorSettings) -> None:
    """Read every secret once. Raises CredentialsError where one cannot be used."""
    if settings.token_file is not None:
        _token(settings.token_file)
    if settings.basic_auth is not None:
        _password(settings.basic_auth)
    if settings.token_file is None and settings.basic_auth is None:
        raise CredentialsError("token_file: is not set")


def admits(header: str, settings: RemediatorSettings) -> bool:
    """Whether an Authorization header names one of those that may notify.

    Raises CredentialsError where the secret that it is to be compared with cannot be read.
    """
    scheme, _, given = header.partition(" ")
    match scheme.lower():
        case "bearer" if settings.token_file is not None:
            return _same(given.strip(), _token(settings.token_file))
        case "basic" if settings.basic_auth is not None:
            user, password = _decoded(given.strip())
            right = _same(password, _password(settings.basic_auth))
            # Both are compared, whichever is wrong.
            return _same(user, settings.basic_auth.username) and right
    return False


def challenges(settings: RemediatorSettings) -> tuple[str, ...]:
    """The WWW-Authenticate headers of a refusal."""
    bearer = (f'Bearer realm="{REALM}"',) if settings.token_file is not None else ()
    basic = (f'Basic realm="{REALM}", charset="UTF-8"',) if settings.basic_auth is not None else ()
    return bearer + basic


def refusal(settings: RemediatorSettings) -> str:
    """What an Authorization header lacks that is not admitted."""
    bearer = ("bear the token of token_file",) if settings.token_file is not None else ()
    basic = ("name the user of basic_auth with the password",) if settings.basic_auth else ()
    return f"the Authorization header does not {' nor '.join(bearer + basic)}"


def _token(file: Path) -> str:
    try:
        return secret_file.token(file)
    except SecretError as error:
        raise CredentialsError(f"token_file: {error}") from None


def _password(basic: BasicAuth) -> str:
    try:
        return secret_file.password(basic.password_file)
    except SecretError as error:
        raise CredentialsError(f"basic_auth.password_file: {error}") from None


def _decoded(given: str) -> tuple[str, str]:
    """The user and the password of a Basic header; empty where it has none."""
    try:
        text = base64.b64decode(given, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return "", ""
    user, _, password = text.partition(":")
    return user, password


def _same(given: str, expected: str) -> bool:
    """Whether two texts are the same; takes as long for every wrong one."""
    return hmac.compare_digest(
        given.encode("utf-8", errors="replace"), expected.encode("utf-8", errors="replace")
    )
