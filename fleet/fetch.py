"""One bounded HTTP exchange with a backend: a page, or a failure that says what it was.

A deadline covers the whole exchange from connect to the last byte, so that a server that sends
one byte now and then holds nobody. What the environment says about proxies and .netrc is not used:
a watchdog asks the server itself, and a key goes to no other host. It is urllib3 and not requests
on top of it, which takes more CPU than all else in a look together (docs/decisions/0009).
"""

import functools
import http.client
import json
import socket
import ssl
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urljoin, urlsplit

import urllib3

from fleet import __version__, secret_file
from fleet.backend import Backend
from fleet.bounded import connection, deadline
from fleet.secret_file import SecretError

# What a vLLM serves about itself; /health says 503 only where the engine's process is gone.
METRICS, HEALTH = "/metrics", "/health"
ENGINE_IS_DEAD = 503

MAX_BYTES = 8 * 1024 * 1024
REDIRECTS = (301, 302, 303, 307, 308)
NO_CONTENT = 204
BAD_REQUEST = 400
DEFAULT_PORTS = {"http": 80, "https": 443}
# What a connection raises that the other side has closed.
LOST = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
# What an answer raises that breaks off or is not HTTP.
BROKEN = (ConnectionError, http.client.HTTPException, urllib3.exceptions.ProtocolError)


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

    def __init__(
        self,
        backend: Backend,
        program: str,
        *,
        follow: bool = True,
        key_setting: str = "api_key_file",
    ) -> None:
        """``program`` is named in the User-Agent, so that a server's log tells who asked.

        ``follow``: whether one redirect is followed that leads to the same server.
        ``key_setting``: what the setting with the file of its API key is called.
        """
        self._backend = backend
        self._key_setting = key_setting
        self._follow = follow
        self._connection = connection(backend.url)
        weakref.finalize(self, self._connection.close)
        self._headers = {
            "User-Agent": f"vllm-lifeguard/{__version__} ({program})",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
        }

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
        self._connection.close()

    def _exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Page | Failure:
        headers = {**self._headers, **headers}
        if self._backend.api_key_file is not None:
            try:
                key = secret_file.token(self._backend.api_key_file)
            except SecretError as error:
                return Failure(Trouble.NO_KEY, f"{self._key_setting}: {error}")
            headers["Authorization"] = f"Bearer {key}"
        began = time.monotonic()
        deadline.at = began + timeout
        url = self._backend.url + path
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            result = _page(self._send(method, url, content, headers), path, began)
        except (*BROKEN, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            result = _failure(error, path, timeout)
        if isinstance(result, Failure):
            # What is left unread of an answer is not the beginning of the next.
            self._connection.close()
        return result

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        response = self._request_anew(method, url, body, headers)
        location = response.headers.get("Location")
        if self._follow and response.status in REDIRECTS and location is not None:
            target = _same_origin(url, location)
            if target is not None:
                self._connection.close()
                response = self._request_anew(method, target, body, headers)
        return response

    def _request_anew(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        """A request; a GET once more where the connection was lost before anything was answered.

        A server closes a connection that it has kept alive long enough, perhaps in the moment in
        which it is used again: that is no trouble of the server's.
        """
        try:
            return self._request(method, url, body, headers)
        except (*BROKEN, urllib3.exceptions.HTTPError) as error:
            if method != "GET" or not any(isinstance(c, LOST) for c in _causes(error)):
                raise
            self._connection.close()
            return self._request(method, url, body, headers)

    def _request(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        self._connection.timeout = deadline.left()
        self._connection.request(
            method,
            _target(url),
            body=body,
            headers=headers,
            preload_content=False,
            decode_content=False,
        )
        return self._connection.getresponse()


@functools.lru_cache(maxsize=65536)
def _target(url: str) -> str:
    """What of a URL is asked of its server. Remembered: it takes urllib3 a while to encode it."""
    return urllib3.util.parse_url(url).request_uri


def _page(response: urllib3.BaseHTTPResponse, path: str, began: float) -> Page | Failure:
    refusal = _refusal(response, path)
    if refusal is not None:
        return refusal
    body = bytearray()
    for chunk in response.stream(65536, decode_content=False):
        body += chunk
        if len(body) > MAX_BYTES:
            return Failure(Trouble.UNREADABLE, f"{path} answered more than {MAX_BYTES} bytes")
    if not body and response.status != NO_CONTENT and _of_no_length(response):
        # Not even the header was whole: it would have said that nothing follows.
        return _lost(path)
    return Page(body.decode("utf-8", errors="replace"), time.monotonic() - began)


def _of_no_length(response: urllib3.BaseHTTPResponse) -> bool:
    return not any(name in response.headers for name in ("Content-Length", "Transfer-Encoding"))


def _refusal(response: urllib3.BaseHTTPResponse, path: str) -> Failure | None:
    """What the status line and headers already say against reading the body."""
    status = response.status
    said = f"{path} answered HTTP {status}"
    if status in (401, 403):
        why = f"{said}: the server wants an API key that it accepts (api_key_file)"
        return Failure(Trouble.UNAUTHORISED, why, status)
    if status in (404, 405):
        return Failure(Trouble.NOT_FOUND, f"{said}: there is no such page", status)
    if status in REDIRECTS:
        host = _host(response.headers.get("Location", ""))
        why = f"{said}: a redirect to {host}, which is not followed"
        return Failure(Trouble.REDIRECTED, why, status)
    if status >= BAD_REQUEST:
        return Failure(Trouble.HTTP_ERROR, said, status)
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return Failure(Trouble.UNREADABLE, f"{said} compressed, though plain was asked for", status)
    return None


def _same_origin(url: str, location: str) -> str | None:
    """Where a redirect of ``url`` leads, if that is the same server; else None."""
    try:
        target = urljoin(url, location)
        return target if _origin(target) == _origin(url) else None
    except ValueError:
        return None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


def _host(location: str) -> str:
    try:
        return urlsplit(location).hostname or "itself"
    except ValueError:
        return "a place that is no URL"


def _failure(error: Exception, path: str, timeout: float) -> Failure:
    """Classify by the operating system's error at the root, which the wrappings hide."""
    causes = list(_causes(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return Failure(Trouble.REFUSED, "the connection was refused")
    if any(map(_is_timeout, causes)):
        return Failure(Trouble.TIMEOUT, f"{path} did not answer in full within {timeout:g} s")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return Failure(Trouble.UNREACHABLE, "the host name does not resolve")
    if any(isinstance(cause, ssl.SSLError | urllib3.exceptions.SSLError) for cause in causes):
        return Failure(Trouble.UNREACHABLE, "the TLS connection could not be made")
    if any(isinstance(cause, BROKEN) for cause in causes):
        return _lost(path)
    return Failure(Trouble.UNREACHABLE, f"no connection ({type(causes[-1]).__name__})")


def _is_timeout(cause: BaseException) -> bool:
    # To urllib3 every connection that cannot be made is one that timed out.
    if isinstance(cause, urllib3.exceptions.NewConnectionError):
        return False
    return isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError)


def _lost(path: str) -> Failure:
    return Failure(Trouble.RESET, f"the connection was lost while {path} was read")


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
