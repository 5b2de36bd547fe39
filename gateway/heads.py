"""The heads of requests to servers: what is passed on, what is ours, what stays here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from fleet.backend import Backend

# RFC 9110, section 7.6.1, and what is between the client and us alone.
NOT_PASSED_ON = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "last-event-id",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-resume",
        "x-resume-token",
    }
)
# A compressed stream could not be counted.
OURS = frozenset({"accept-encoding", "x-request-id"})
# What a backend answers that another may not: a full queue, an engine that shuts down.
ELSEWHERE = frozenset({408, 425, 429, 500, 502, 503, 504})
NOT_PASSED_BACK = frozenset(
    {"connection", "keep-alive", "proxy-connection", "trailer", "transfer-encoding", "upgrade"}
)
ADDRESSES = ("location", "content-location")


@dataclass(frozen=True)
class Head:
    """What of a client's request is passed on in its head, to whichever backend.

    ``target`` is the path with its query, ``request_id`` the client's or ours.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    request_id: str

    def to(self, backend: Backend, key: str | None, length: int) -> bytes:
        """As bytes for a backend with this API key, before a body of this length."""
        url = urlsplit(backend.url)
        only_here = named(self.headers)
        lines = [f"{self.method} {url.path}{self.target} HTTP/1.1", f"host: {url.netloc}"]
        lines += [
            f"{name}: {value}"
            for name, value in self.headers.items()
            if name not in NOT_PASSED_ON and name not in OURS and name not in only_here
        ]
        lines += [f"content-length: {length}", f"x-request-id: {self.request_id}"]
        if key is not None:
            lines.append(f"authorization: Bearer {key}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace")


def passed_back(headers: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The headers of a server's answer that the client gets."""
    only_here = named(headers)
    return [
        (name, value)
        for name, value in headers.items()
        if name not in NOT_PASSED_BACK and name not in only_here
    ]


def addressed(headers: Mapping[str, str], host: str, prefix: str) -> Mapping[str, str]:
    """The headers of an answer without the address of the server that gave it.

    ``host`` and ``prefix`` are those of the server's base URL. Who followed a redirect there would
    not be billed, nor tried elsewhere; a path alone leads back here.
    """
    if not any(name in headers for name in ADDRESSES):
        return headers
    return {
        name: _path(value, host, prefix) if name in ADDRESSES else value
        for name, value in headers.items()
    }


def _path(location: str, host: str, prefix: str) -> str:
    """A location at a host as a path below its prefix; any other as it is."""
    try:
        url = urlsplit(location)
    except ValueError:
        return "/"  # nobody knows where it leads
    if url.netloc and url.hostname != host.lower():
        return location
    if not (url.netloc or location.startswith("/")):
        return location
    path = url.path
    if prefix and (path == prefix or path.startswith(f"{prefix}/")):
        path = path.removeprefix(prefix)
    return urlunsplit(("", "", "/" + path.lstrip("/"), url.query, url.fragment))


def named(headers: Mapping[str, str]) -> frozenset[str]:
    """What the Connection header names: it is for this connection alone."""
    said = headers.get("connection")
    if said is None:
        return frozenset()
    return frozenset(name for each in said.lower().split(",") if (name := each.strip()))
