"""The pages under /-/, as Prometheus' own programs have them: healthy, ready, reload."""

import threading
from collections.abc import Callable, Sequence

from flask import Flask

from exporter.memory import Memory
from exporter.standing import Standing
from exporter.watch import ReloadBusyError


def add_operation(
    app: Flask,
    memory: Memory,
    standing: Callable[[], Standing],
    reload: Callable[[], Sequence[str]],
) -> None:
    """Add the pages to ``app``. ``reload`` gives what is wrong; it may raise ReloadBusyError."""
    was_ready = threading.Event()

    @app.get("/-/healthy")
    def healthy() -> tuple[str, int]:
        gone = standing().not_running
        if gone:
            return f"not running any more: {', '.join(gone)}\n", 503
        return "healthy\n", 200

    @app.get("/-/ready")
    def ready() -> tuple[str, int]:
        why_not = "" if was_ready.is_set() else _why_not_ready(memory, standing())
        if why_not:
            return why_not, 503
        # Backends come and go: one that was just found makes nobody unready who was ready.
        was_ready.set()
        return "ready\n", 200

    @app.route("/-/reload", methods=["POST", "PUT"])
    def reloaded() -> tuple[str, int, dict[str, str]]:
        plain = {"Content-Type": "text/plain; charset=utf-8"}
        try:
            problems = reload()
        except ReloadBusyError as error:
            return f"{error}\n", 503, {**plain, "Retry-After": "5"}
        if problems:
            return "".join(f"{problem}\n" for problem in problems), 500, plain
        return "", 200, plain


def _why_not_ready(memory: Memory, standing: Standing) -> str:
    """What is still missing after a start, or nothing."""
    unseen = [source.name for source in standing.sources if not source.has_looked]
    if unseen:
        return f"not looked up yet: {', '.join(unseen)}\n"
    polled = {snapshot.backend.name for snapshot in memory.snapshots()} & {*standing.backends}
    if len(polled) < len(standing.backends):
        return f"{len(polled)} of {len(standing.backends)} backends polled once\n"
    return ""
