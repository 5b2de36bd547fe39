"""What a person or a batch job asks for, parsed once from JSON into a frozen value."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic_core import PydanticCustomError

from fleet.value import seconds
from remediator.moment import clock
from remediator.notification import RFC3339, SHOWN_CHARACTERS, clean
from remediator.record import EVERY_BACKEND

MOST_BY = 128
MOST_WHY = 1000


class WishError(Exception):
    """It cannot be done as asked; one sentence with the place and the value."""


class UnknownBackendError(WishError):
    """No backend in fleet.yml has this name."""


@dataclass(frozen=True)
class Wish:
    """Who asks, and why; both are printable."""

    by: str
    why: str


@dataclass(frozen=True)
class HoldWish:
    """Who wants a backend (or EVERY_BACKEND) held, until when, and why."""

    backend: str
    until: datetime
    by: str
    why: str


def wish(tree: object, *, needs_why: bool) -> Wish:
    """Who asks and why. Raises WishError."""
    fields = _fields(tree, ("by", "why"))
    why = _text(fields, "why", MOST_WHY) if needs_why or "why" in fields else ""
    return Wish(_text(fields, "by", MOST_BY), why)


def hold_wish(
    tree: object, backends: Collection[str], now: datetime, longest_hold: float
) -> HoldWish:
    """A hold that ends, at most ``longest_hold`` seconds from now. Raises WishError."""
    fields = _fields(tree, ("backend", "for", "until", "by", "why"))
    backend = fields.get("backend")
    if backend is None:
        raise WishError(f"backend: is required: a name, or {EVERY_BACKEND!r} for all of them")
    if backend != EVERY_BACKEND:
        known(backend, backends)
    if ("for" in fields) == ("until" in fields):
        raise WishError("for: is required: a duration such as 2h; or else until, a time")
    place = "for" if "for" in fields else "until"
    until = now + for_so_long(fields["for"], place) if place == "for" else _time(fields["until"])
    longest = timedelta(seconds=longest_hold)
    if until <= now:
        raise WishError(f"{place}: {_shown(fields[place])} is over: it is {clock(now)}")
    if until > now + longest:
        raise WishError(
            f"{place}: {_shown(fields[place])} is longer than longest_hold, "
            f"which ends at {clock(now + longest)}"
        )
    by, why = _text(fields, "by", MOST_BY), _text(fields, "why", MOST_WHY)
    return HoldWish(str(backend), until, by, why)


def known(name: object, backends: Collection[str]) -> str:
    """The name, if it is a backend's. Raises UnknownBackendError, with one that is spelt alike."""
    if isinstance(name, str) and name in backends:
        return name
    close = difflib.get_close_matches(name if isinstance(name, str) else "", sorted(backends), n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise UnknownBackendError(f"backend: {_shown(name)} is not a backend in fleet.yml{hint}")


def for_so_long(value: object, place: str) -> timedelta:
    """A duration such as 2h. Raises WishError."""
    try:
        return timedelta(seconds=seconds(value))
    except PydanticCustomError as error:
        raise WishError(f"{place}: {_shown(value)} {error.message()}") from None


def _fields(tree: object, names: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(tree, Mapping):
        raise WishError(f"the body: {_shown(tree)} is not an object")
    for name in tree:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else f": {', '.join(names)} are"
            raise WishError(f"{clean(name)}: is not a field{hint}")
    return tree


def _text(fields: Mapping[str, object], name: str, most: int) -> str:
    value = fields.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise WishError(f"{name}: is required: {'who asks' if name == 'by' else 'a reason'}")
    if not isinstance(value, str):
        raise WishError(f"{name}: {_shown(value)} is not text")
    text = " ".join(value.split())
    if len(text) > most:
        raise WishError(f"{name}: is longer than {most} characters")
    return clean(text, most)


def _time(value: object) -> datetime:
    if isinstance(value, str) and RFC3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise WishError(f"until: {_shown(value)} is not a time such as 2026-03-01T12:00:00Z")


def _shown(value: object) -> str:
    return clean(repr(value), SHOWN_CHARACTERS)
