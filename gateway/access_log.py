"""One line in the log for each request that has ended: who, where, how; never what was said."""

import logging

from gateway.office import InFlight

log = logging.getLogger("gateway.access")


def ended(request: InFlight, how: str, seconds: float, tokens: int) -> None:
    """Tell it. Values that a client chose are printed so that they stay one value."""
    log.info(
        "request=%s caller=%s model=%s backend=%s legs=%d tokens=%d end=%s seconds=%.3f",
        _word(request.id),
        _word(request.caller),
        _word(request.model),
        request.backend or "-",
        request.legs,
        tokens,
        how,
        seconds,
    )


def _word(text: str) -> str:
    plain = text.isprintable() and not any(char in text for char in ' ="\\')
    return text if text and plain else repr(text)
