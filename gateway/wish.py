"""What a client sends that wants to go on with a stream: a token, the last event's id, or both."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.seal import NotGood, Why

FIELD = "resume_token"
_LAST = re.compile(r"(?P<request>[!-~]{1,128})\.(?P<number>[0-9]{1,15})")


@dataclass(frozen=True)
class Last:
    """The last event that a client got: the request's id and the event's number."""

    request_id: str
    number: int


@dataclass(frozen=True)
class Wish:
    """What to go on with; one of the two at least is there."""

    token: str | None
    last: Last | None


def wish(headers: Mapping[str, str], body: bytes) -> Wish | NotGood | None:
    """Return what a POST wants to go on with, None where it is a request of its own.

    Names of ``headers`` are in lower case.
    """
    token = headers.get("x-resume-token", "").strip() or _in_body(body)
    said = headers.get("last-event-id", "").strip()
    last = _last(said) if said else None
    if isinstance(last, NotGood):
        return last
    return Wish(token, last) if token or last else None


def followed(last_event_id: str, request_id: str) -> Last | NotGood:
    """Return what a GET of ``request_id``'s stream has got so far: event 0 where it has nothing."""
    said = last_event_id.strip()
    last = _last(said) if said else Last(request_id, 0)
    if isinstance(last, Last) and last.request_id != request_id:
        return NotGood(Why.MALFORMED)
    return last


def _last(said: str) -> Last | NotGood:
    found = _LAST.fullmatch(said)
    if found is None:
        return NotGood(Why.MALFORMED)
    return Last(found["request"], int(found["number"]))


def _in_body(body: bytes) -> str | None:
    if FIELD.encode() not in body:
        return None
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        return None  # said by whoever reads it as a request
    token = sent.get(FIELD) if isinstance(sent, dict) else None
    return token if isinstance(token, str) and token else None
