"""What a server says of itself besides its page: that its engine is dead, or that it is paused."""

import json

from fleet.fetch import ENGINE_IS_DEAD, HEALTH, Failure, Fetcher, Page, Trouble

# There only where the server runs in development mode (VLLM_SERVER_DEV_MODE). Measured on 0.32.0:
# it answers true at once, false within 2 s on a busy engine, and not at all on a frozen one.
IS_PAUSED = "/is_paused"


class Witness:
    """Asked where a page shows that nothing moves. Belongs to one thread at a time."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._cannot_be_asked_for_pause = False

    def forget(self) -> None:
        """Another process may have other pages."""
        self._cannot_be_asked_for_pause = False

    def dead(self, *, timeout: float) -> bool:
        """Whether /health says that the engine's process is gone."""
        health = self._fetcher.get(HEALTH, timeout=timeout)
        return isinstance(health, Failure) and health.status == ENGINE_IS_DEAD

    def paused(self, *, timeout: float) -> bool | None:
        """Whether somebody has paused the engines; None where the server does not tell."""
        if self._cannot_be_asked_for_pause:
            return None
        page = self._fetcher.get(IS_PAUSED, timeout=timeout)
        match page:
            case Page(text=text):
                return _is_paused(text)
            case Failure(kind=Trouble.NOT_FOUND):
                self._cannot_be_asked_for_pause = True
        return None


def _is_paused(text: str) -> bool | None:
    try:
        said = json.loads(text)["is_paused"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return said if isinstance(said, bool) else None
