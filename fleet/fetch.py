"""One bounded HTTP exchange with a backend: a page, or a failure that says what it was.

A deadline covers the whole exchange from connect to the last byte, so that a server that sends
one byte now and then holds nobody. Proxies, .netrc and other environment settings of ``requests``
are not used: a watchdog asks the server itself, and a key goes to no other host.
"""

import http.client
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urljoin, urlsplit

import requests

from fleet import __version__
from fleet.backend import Backend
from fleet.bounded import BoundedAdapter, deadline

MAX_BYTES = 8 * 1024 * 1024
REDIRECTS = (301, 302, 303, 307, 308)


class Trouble(StrEnum):
    """Why an exchange gave no page."""

    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    RESET = "reset"
    UNAUTHORISED = "unauthorised"
    NOT_FOUND = "not_found"
    HTTP_ERROR = "http_error"
    REDIRECTED = "redirected"
    UNREADABLE = "unreadable"
    NO_KEY = "no_key"


@dataclass(frozen=True)
class Page:
    """What was answered with a 2xx status; ``seconds`` is how long the whole exchange took."""

    text: str
    seconds: float


@dataclass(frozen=True)
class Failure:
    """Why there is no page: the closed kind, one sentence, and the HTTP status if there was one."""

    kind: Trouble
    why: str
    status: int | None = None


class Fetcher:
    """Exchanges with one backend over kept-alive connections. Belongs to one thread at a time."""

    def __init__(self, backend: Backend, program: str) -> None:
        """``program`` is named in the User-Agent, so that a server's log tells who asked."""
        self._backend = backend
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount("http://", BoundedAdapter())
        self._session.mount("https://", BoundedAdapter())
        self._session.headers.update(
            {
                "User-Agent": f"vllm-lifeguard/{__version__} ({program})",
                "Accept-Encoding": "identity",
            }
        )

    def get(self, path: str, *, timeout: float) -> Page | Failure:
        """GET one path of the backend, within ``timeout`` seconds in all."""
        return self._exchange("GET", path, None, {}, timeout)

    def post(
        self, path: str, body: Mapping[str, object], headers: Mapping[str, str], *, timeout: float
    ) -> Page | Failure:
        """POST a JSON body to one path of the backend, within ``timeout`` seconds in all."""
        return self._exchange("POST", path, body, headers, timeout)

    def close(self) -> None:
        """Close the kept-alive connections."""
        self._session.close()

    def _exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Page | Failure:
        headers = dict(headers)
        if self._backend.api_key_file is not None:
            # Read each time: keys are rotated under running programs.
            try:
                key = self._backend.api_key_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                return Failure(
                    Trouble.NO_KEY, f"api_key_file {self._backend.api_key_file} cannot be read"
                )
            headers["Authorization"] = f"Bearer {key}"
        began = time.monotonic()
        deadline.at = began + timeout
        url = self._backend.url + path
        try:
            with self._send(method, url, body, headers) as response:
                return _page(response, path, began)
        except (requests.RequestException, OSError, ValueError) as error:
            return _failure(error, path, timeout)

    def _send(
        self, method: str, url: str, body: Mapping[str, object] | None, headers: Mapping[str, str]
    ) -> requests.Response:
        response = self._request(method, url, body, headers)
        target = urljoin(url, response.headers.get("Location", ""))
        if response.status_code in REDIRECTS and _origin(target) == _origin(url):
            response.close()
            response = self._request(method, target, body, headers)
        return response

    def _request(
        self, method: str, url: str, body: Mapping[str, object] | None, headers: Mapping[str, str]
    ) -> requests.Response:
        return self._session.request(
            method,
            url,
            json=body,
            headers=dict(headers),
            timeout=max(0.001, deadline.at - time.monotonic()),
            allow_redirects=False,
            stream=True,
        )


def _page(response: requests.Response, path: str, began: float) -> Page | Failure:
    refusal = _refusal(response, path)
    if refusal is not None:
        return refusal
    body = bytearray()
    for chunk in response.iter_content(65536):
        body += chunk
        if len(body) > MAX_BYTES:
            return Failure(Trouble.UNREADABLE, f"{path} answered more than {MAX_BYTES} bytes")
    return Page(body.decode("utf-8", errors="replace"), time.monotonic() - began)


def _refusal(response: requests.Response, path: str) -> Failure | None:
    """What the status line and headers already say against reading the body."""
    status = response.status_code
    said = f"{path} answered HTTP {status}"
    if status in (401, 403):
        why = f"{said}: the server wants an API key that it accepts (api_key_file)"
        return Failure(Trouble.UNAUTHORISED, why, status)
    if status in (404, 405):
        return Failure(Trouble.NOT_FOUND, f"{said}: there is no such page", status)
    if status in REDIRECTS:
        host = urlsplit(response.headers.get("Location", "")).hostname
        why = f"{said}: a redirect to {host or 'itself'}, which is not followed"
        return Failure(Trouble.REDIRECTED, why, status)
    if not response.ok:
        return Failure(Trouble.HTTP_ERROR, said, status)
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return Failure(Trouble.UNREADABLE, f"{said} compressed, though plain was asked for", status)
    return None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _failure(error: Exception, path: str, timeout: float) -> Failure:
    """Classify by the operating system's error at the root, which the wrappings hide."""
    causes = list(_causes(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return Failure(Trouble.REFUSED, "the connection was refused")
    if any(isinstance(cause, TimeoutError | requests.Timeout) for cause in causes):
        return Failure(Trouble.TIMEOUT, f"{path} did not answer in full within {timeout:g} s")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return Failure(Trouble.UNREACHABLE, "the host name does not resolve")
    if any(isinstance(cause, requests.exceptions.SSLError) for cause in causes):
        return Failure(Trouble.UNREACHABLE, "the TLS connection could not be made")
    if any(isinstance(cause, ConnectionError | http.client.HTTPException) for cause in causes):
        return Failure(Trouble.RESET, f"the connection was lost while {path} was read")
    return Failure(Trouble.UNREACHABLE, f"no connection ({type(causes[-1]).__name__})")


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    stack: list[BaseException] = [error]
    while stack:
        cause = stack.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        inner = [cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args]
        stack.extend(item for item in inner if isinstance(item, BaseException))


http_client_errors = requests.exceptions.ChunkedEncodingError
