"""An error of the gateway's own program: seen in the log, counted, and outlived."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.counts import Counts, Where

log = logging.getLogger("gateway")


@contextmanager
def outlived(counts: Counts, where: Where, name: str) -> Iterator[None]:
    """Go on behind this block whatever it raises. ``name``: of the backend or the request."""
    try:
        yield
    except Exception:
        counts.failed(where)
        log.exception("event=error where=%s name=%r", where, name)
