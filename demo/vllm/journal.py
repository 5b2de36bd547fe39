"""One line per event, as ``key=value``."""

import json


def line(event: str, **fields: object) -> str:
    """The line for an event; values with spaces or quotes are quoted."""
    return " ".join(
        (f"event={event}", *(f"{name}={_value(each)}" for name, each in fields.items()))
    )


def _value(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return json.dumps(text) if not text or any(mark in text for mark in ' "=') else text
