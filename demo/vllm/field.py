"""Fields of a JSON object, each with its type checked; a wrong one is named with its value."""

import json
from collections.abc import Mapping

JsonObject = Mapping[str, object]


def json_object(text: bytes) -> JsonObject:
    """The object in a request body; ValueError says what is there instead."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(  # noqa: TRY004 - a wrong body, not a wrong program
            f"the body must be a JSON object, got {_shown(value)}"
        )
    return value


def integer(body: JsonObject, name: str, default: int | None, at_least: int) -> int:
    """A whole number; without a default it has to be there."""
    value = default if body.get(name) is None else body[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {_got(value)}")
    return value


def number(body: JsonObject, name: str, above: float) -> float:
    """A number that has to be there and above a bound."""
    value = body.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > above:
        raise ValueError(f"{name} must be a number above {above:g}, got {_got(value)}")
    return float(value)


def flag(body: JsonObject, name: str) -> bool:
    """True or false; false when it is not there."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {_shown(value)}")
    return bool(value)


def section(body: JsonObject, name: str) -> JsonObject:
    """An object within the object; empty when it is not there."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(  # noqa: TRY004 - a wrong body, not a wrong program
            f"{name} must be an object, got {_shown(value)}"
        )
    return value


def token_ids(value: object) -> tuple[int, ...] | None:
    """A list of whole numbers, which is how token ids look; None for anything else."""
    if not isinstance(value, list):
        return None
    ids = tuple(each for each in value if isinstance(each, int) and not isinstance(each, bool))
    return ids if len(ids) == len(value) else None


def _got(value: object) -> str:
    return "nothing" if value is None else _shown(value)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004 - one readable line
