"""What a server showed before it was restarted, saved for whoever asks why it was stuck.

Bounded in time and size, and never in the way: a file that cannot be written is only logged.
"""

import logging
import shutil
from contextlib import closing
from datetime import datetime
from pathlib import Path

from fleet.backend import Backend
from fleet.fetch import HEALTH, METRICS, Failure, Fetcher
from remediator.journal import line

FOLDER = "evidence"
PAGES = {METRICS: "metrics.prom", HEALTH: "health.txt"}
TIMEOUT_SECONDS = 5.0
MOST_CHARACTERS = 1024 * 1024
MOST_KEPT = 100

log = logging.getLogger("remediator")


class Evidence:
    """Saves pages under ``evidence/`` beside the database, the newest MOST_KEPT attempts."""

    def __init__(self, beside: Path | None) -> None:
        """``beside`` None saves nothing: the database then is no file."""
        self._folder = None if beside is None else beside / FOLDER

    def save(self, backend: Backend, attempt_id: int, now: datetime) -> str | None:
        """Save the backend's pages and return their folder, or None; raises nothing."""
        if self._folder is None:
            return None
        folder = self._folder / f"{now:%Y%m%dT%H%M%SZ}-{backend.name}-{attempt_id}"
        try:
            folder.mkdir(parents=True)
            with closing(Fetcher(backend, "remediator")) as fetcher:
                for path, name in PAGES.items():
                    (folder / name).write_text(_page(fetcher, path), encoding="utf-8")
            self._forget_old(self._folder)
        except OSError as error:
            log.warning("%s", line(event="no_evidence", backend=backend.name, why=error))
            return None
        return str(folder)

    @staticmethod
    def _forget_old(folder: Path) -> None:
        for old in sorted(folder.iterdir())[:-MOST_KEPT]:
            shutil.rmtree(old)


def _page(fetcher: Fetcher, path: str) -> str:
    page = fetcher.get(path, timeout=TIMEOUT_SECONDS)
    if isinstance(page, Failure):
        return f"{page.kind}: {page.why}\n"
    return page.text[:MOST_CHARACTERS]
