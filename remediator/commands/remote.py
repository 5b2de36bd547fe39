"""A running remediator, reached by its API."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import requests

from fleet.secret_file import SecretError
from remediator.api_token import read
from remediator.commands.exit_status import CommandError, ExitStatus

TIMEOUT_SECONDS = 15.0
GOOD = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED)
STATUSES: Mapping[int, ExitStatus] = {
    HTTPStatus.BAD_REQUEST: ExitStatus.USAGE,
    HTTPStatus.NOT_FOUND: ExitStatus.USAGE,
    HTTPStatus.UNAUTHORIZED: ExitStatus.NOT_AUTHORISED,
    HTTPStatus.FORBIDDEN: ExitStatus.NOT_AUTHORISED,
}


class Remote:
    """Asks it. Every method raises CommandError where it is not answered as asked.

    What the environment says of proxies and ``.netrc`` is not used, and no redirection is followed:
    a token goes to no other host.
    """

    def __init__(self, url: str, token_file: Path | None, ca_file: Path | None) -> None:
        """``ca_file``: PEM certificates to trust instead of the system's."""
        self.url = url
        self._token_file = token_file
        self._session = requests.Session()
        self._session.trust_env = False
        if ca_file is not None:
            self._session.verify = str(ca_file)

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self._session.close()

    def get(self, *path: str | int, with_token: bool = False, **query: object) -> Any:  # noqa: ANN401 -- JSON
        """What stands there. ``with_token`` sends the token if there is one."""
        headers = self._bearer() if with_token and self._token_file is not None else {}
        return _json(self._asked("GET", path, params=query, headers=headers), self.url)

    def text(self, *path: str | int) -> str:
        """The text that stands there, which needs the token."""
        return self._asked("GET", path, headers=self._bearer()).text

    def post(self, *path: str | int, **body: object) -> Any:  # noqa: ANN401 -- JSON
        """Have something done, which needs the token."""
        return _json(self._asked("POST", path, json=body, headers=self._bearer()), self.url)

    def _bearer(self) -> dict[str, str]:
        if self._token_file is None:
            raise CommandError(
                "a token is needed: --token-file, LIFEGUARD_TOKEN_FILE, "
                "or remediator.api_token_file in fleet.yml",
                ExitStatus.NOT_AUTHORISED,
            )
        try:
            return {"Authorization": f"Bearer {read(self._token_file)}"}
        except SecretError as error:
            raise CommandError(f"--token-file: {error}", ExitStatus.NOT_AUTHORISED) from None

    def _asked(self, method: str, path: tuple[str | int, ...], **how: Any) -> requests.Response:  # noqa: ANN401
        url = "/".join((self.url, "api", *(quote(str(part), safe="*") for part in path)))
        try:
            answer = self._session.request(
                method, url, timeout=TIMEOUT_SECONDS, allow_redirects=False, **how
            )
        except (requests.RequestException, OSError) as error:
            why = f"{self.url} cannot be reached: {_because(error)}"
            raise CommandError(why, ExitStatus.UNREACHABLE) from None
        if answer.status_code not in GOOD:
            status = STATUSES.get(answer.status_code, ExitStatus.UNREACHABLE)
            raise CommandError(_refusal(answer, self.url), status)
        return answer


def _json(answer: requests.Response, url: str) -> Any:  # noqa: ANN401 -- JSON
    try:
        return answer.json()
    except ValueError:
        raise CommandError(f"{url} does not speak JSON", ExitStatus.UNREACHABLE) from None


def _refusal(answer: requests.Response, url: str) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, LookupError, TypeError):
        return f"{url} answered {answer.status_code}, and not as a remediator does"


def _because(error: Exception) -> str:
    """The sentence at the bottom of what requests and urllib3 say."""
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    cause: BaseException = error
    while True:
        inner = getattr(cause, "reason", None) or cause.__cause__ or cause.__context__
        if inner is None and cause.args and isinstance(cause.args[0], BaseException):
            inner = cause.args[0]
        if not isinstance(inner, BaseException):
            break
        cause = inner
    return getattr(cause, "strerror", None) or str(cause)
