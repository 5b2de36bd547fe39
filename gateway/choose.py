"""Which backend a request goes to: the least busy of those that serve its model and are up."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gateway.standing import Standing


@dataclass(frozen=True)
class NoBackend:
    """Nobody can take a request: one sentence, the HTTP status for it, and when to try again.

    ``retry_after`` is in seconds, None where trying again is of no use.
    """

    why: str
    status: int
    retry_after: int | None


def billed_as(backends: Sequence[Standing], model: str) -> str:
    """The model that a request is written down for: the one it names, else the only one served.

    Empty where it names none, and there are several: which of them it is only its backend knows.
    """
    served = frozenset[str]().union(*(standing.models or () for standing in backends))
    return next(iter(served)) if not model and len(served) == 1 else model


def choose(
    backends: Sequence[Standing], model: str | None, tried: Collection[str], now: float
) -> Standing | NoBackend:
    """The backend that has the fewest requests of ours in flight; among equals the first listed.

    ``model`` None is served by all. ``tried`` are the names of those that are not to be asked
    (again).
    """
    serving = [s for s in backends if model is None or s.serves(model)]
    if not serving:
        if any(standing.models is None for standing in backends):
            return NoBackend(f"no backend is known yet to serve the model {model!r}", 503, 5)
        return NoBackend(f"the model {model!r} does not exist", 404, None)
    free = [s for s in serving if s.is_up(now) and s.backend.name not in tried]
    if not free:
        return NoBackend(f"no backend that serves {model or 'it'!r} can take it now", 503, 5)
    return min(free, key=lambda standing: standing.in_flight)
