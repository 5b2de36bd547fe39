"""A moment as every sentence and row shows it."""

from datetime import datetime


def clock(time: datetime) -> str:
    """``2026-03-01T12:00:00Z``; ``time`` is in UTC."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
