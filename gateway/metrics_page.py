"""The page of metrics, however often it is asked for: anybody may ask, and all else waits."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

# A page takes about 1 ms. So much of the loop's time may go into pages, and so much at once.
SHARE = 0.1
RESERVE_SECONDS = 0.25


class MetricsPage:
    """Made anew each time, but for those who ask in a flood: they get the last one again.

    It is then as old as ``1 / SHARE`` of the time that a page takes. ``clock`` tells monotonic
    seconds. Belongs to one loop.
    """

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._left = RESERVE_SECONDS
        self._at = clock()
        self._last: tuple[str, bytes] | None = None

    def page(self, accept: str) -> tuple[str, bytes]:
        """Return its content type and itself, for this Accept header; one again is as it was."""
        began = self._clock()
        self._left = min(RESERVE_SECONDS, self._left + SHARE * (began - self._at))
        self._at = began
        if self._last is None or self._left > 0:
            encode, content_type = choose_encoder(accept)
            self._last = content_type, encode(self._registry)
            self._left -= self._clock() - began
        return self._last
