"""Which web pages may ask from a browser. Off unless origins are configured.

Credentials that a browser adds by itself (cookies) are never allowed: a page sends its key in a
header. That is why ``*`` may stand for all origins. Source: https://fetch.spec.whatwg.org/#http-cors-protocol
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

Headers = tuple[tuple[str, str], ...]

ANY = "*"
METHODS = "GET, POST"
# Beside what every page may read; OpenAI's clients look at these.
EXPOSED = "X-Request-Id, Retry-After, Location, Preference-Applied"
ALWAYS_ALLOWED = "authorization, content-type, idempotency-key, last-event-id, prefer, x-request-id, x-resume, x-resume-token"  # noqa: E501
MAX_AGE_SECONDS = 600
_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+( *, *[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
_LONGEST = 2048


def mistake(origin: str) -> str:
    """Return what is wrong with an origin in the settings, empty if nothing is."""
    if origin == ANY:
        return ""
    try:
        parts = urlsplit(origin)
        plain = f"{parts.scheme}://{parts.netloc}"
        is_origin = parts.scheme in ("http", "https") and bool(parts.hostname) and plain == origin
        is_origin = is_origin and origin == origin.lower() and not set(origin) & set("@*")
        is_origin = is_origin and parts.port != {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        is_origin = False
    return "" if is_origin else "is not '*' or an origin as browsers send it: https://host[:port]"


def headers_for(origin: str | None, origins: Sequence[str]) -> Headers:
    """Return the headers that an answer to this Origin header has to have."""
    if not origins:
        return ()
    allowed = _allowed(origin, origins)
    return (*allowed, ("access-control-expose-headers", EXPOSED)) if _lets_in(allowed) else allowed


def preflight(
    origin: str | None, method: str | None, headers: str | None, origins: Sequence[str]
) -> Headers | None:
    """Return the headers of the 204 to an OPTIONS request, None where it is no preflight.

    ``method`` and ``headers`` are those of Access-Control-Request-Method and -Headers. Any header
    may be sent: OpenAI's clients send several of their own.
    """
    if not origins or origin is None or method is None:
        return None
    allowed = _allowed(origin, origins)
    if not _lets_in(allowed):
        return allowed
    asked = headers.strip() if headers else ""
    named = asked if len(asked) <= _LONGEST and _NAMES.fullmatch(asked) else ALWAYS_ALLOWED
    return (
        *allowed,
        ("access-control-allow-methods", METHODS),
        ("access-control-allow-headers", named),
        ("access-control-max-age", str(MAX_AGE_SECONDS)),
    )


def _lets_in(headers: Headers) -> bool:
    """Whether these headers let an origin in."""
    return any(name == "access-control-allow-origin" for name, _ in headers)


def _allowed(origin: str | None, origins: Sequence[str]) -> Headers:
    if ANY in origins:
        return (("access-control-allow-origin", ANY),) if origin is not None else ()
    # Caches must not give the answer for one origin to another.
    vary = (("vary", "Origin"),)
    if origin is None or origin not in origins:
        return vary
    return (("access-control-allow-origin", origin), *vary)
