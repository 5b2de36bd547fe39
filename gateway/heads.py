"""The heads of requests to servers: what is passed on, what is ours, what stays here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

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
        lines = [f"{self.method} {url.path}{self.target} HTTP/1.1", f"host: {url.netloc}"]
        lines += [
            f"{name}: {value}"
            for name, value in self.headers.items()
            if name not in NOT_PASSED_ON and name not in OURS
        ]
        lines += [f"content-length: {length}", f"x-request-id: {self.request_id}"]
        if key is not None:
            lines.append(f"authorization: Bearer {key}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace")


def passed_back(headers: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The headers of a server's answer that the client gets."""
    return [(name, value) for name, value in headers.items() if name not in NOT_PASSED_BACK]
