"""What a server showed before it was restarted, saved for whoever asks why it was stuck.

Never in the way: all of it together has ``timeout`` seconds, files and folder are bounded in size,
and what fails is one sentence in ``about.json``. Every page and command has a thread of its own,
for a name that does not resolve or a disk that hangs cannot be interrupted; who is late is left.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fleet import fetch
from fleet.backend import Backend
from fleet.fetch import Failure, Fetcher
from remediator import exhibit, process
from remediator.capture import capture
from remediator.exhibit import command_name, folder_name
from remediator.journal import line
from remediator.process import CannotRunError
from remediator.retention import forget_old

FOLDER = "evidence"
PAGE_SECONDS = 5.0
# Between the two looks at /metrics: what is the same in both did not move.
BETWEEN_SECONDS = 3.0
MOST_BYTES = 1024 * 1024
MOST_BYTES_IN_ALL = 16 * 1024 * 1024
# The share of the time that is kept for killing commands and for writing files.
SHARE_FOR_THE_END = 0.2
LONGEST_END_SECONDS = 4.0
SHORTEST_KEY = 8

log = logging.getLogger("remediator")

Work = Callable[["_Saving"], bytes]


class _FailedError(Exception):
    """There is nothing to save; the text is one sentence."""


class Evidence:
    """Saves pages and commands' output in one folder per attempt. May be used from any thread."""

    def __init__(self, folder: Path | None, timeout: float, keep: int) -> None:
        """``folder`` None saves nothing; ``timeout`` is in seconds; ``keep`` so many attempts."""
        self._folder = folder
        self._timeout = timeout
        self._keep = keep

    def save(self, backend: Backend, attempt_id: int, now: datetime) -> str | None:
        """Save what the backend shows and return the folder, or None; raises nothing.

        Returns within ``timeout`` seconds.
        """
        if self._folder is None:
            return None
        name = folder_name(now, backend.name, attempt_id)
        saving = _Saving(self._folder / name, backend, attempt_id, now, self._timeout, self._keep)
        try:
            whole = threading.Thread(target=saving.run, name="evidence", daemon=True)
            whole.start()
        except RuntimeError as error:
            saving.tell("no_evidence", str(error))
            return None
        whole.join(saving.left(saving.over_at))
        if whole.is_alive():
            saving.tell("late_evidence", f"it was not saved in full within {self._timeout:g} s")
        return str(saving.folder) if saving.has_any() else None


@dataclass
class _Saving:
    """The saving of one attempt's evidence. ``*_at`` are moments of the monotonic clock."""

    folder: Path
    backend: Backend
    attempt_id: int
    now: datetime
    timeout: float
    keep: int
    began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _saved: dict[str, str] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _key: bytes = b""

    def __post_init__(self) -> None:
        self.end_seconds = min(self.timeout * SHARE_FOR_THE_END, LONGEST_END_SECONDS)
        self.over_at = self.began + self.timeout
        self.work_until = self.over_at - self.end_seconds
        self._write_until = self.over_at - self.end_seconds / 4
        self._works = _works(self.backend)
        self.most_bytes = min(MOST_BYTES, MOST_BYTES_IN_ALL // (len(self._works) + 1))

    def left(self, until: float) -> float:
        """Seconds until then, 0 where it has passed."""
        return max(0.0, until - time.monotonic())

    def tell(self, event: str, why: object) -> None:
        """Tell in the log what did not work."""
        log.warning("%s", line(event=event, backend=self.backend.name, why=why))

    def has_any(self) -> bool:
        """Whether anything was saved so far."""
        with self._lock:
            return bool(self._saved)

    def run(self) -> None:
        """Save all, tell about it in a file, and forget the oldest attempts."""
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700)
        except OSError as error:
            self.tell("no_evidence", error)
            return
        self._key = _key(self.backend)
        self._work_side_by_side()
        self._write_about()
        try:
            forget_old(self.folder.parent, self.keep, self.folder.name)
        except OSError as error:
            self.tell("old_evidence_stays", error)

    def _work_side_by_side(self) -> None:
        threads = []
        for name, work in self._works.items():
            thread = threading.Thread(target=self._do, args=(name, work), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._fail(name, str(error))
            else:
                threads.append(thread)
        for thread in threads:
            thread.join(self.left(self._write_until))

    def _do(self, name: str, work: Work) -> None:
        try:
            content = work(self)
            self._write(name, content.replace(self._key, b"[api key]") if self._key else content)
        except (_FailedError, CannotRunError) as error:
            self._fail(name, str(error))
        except OSError as error:
            self._fail(name, f"cannot be saved: {error.strerror}")

    def _write(self, name: str, content: bytes) -> None:
        """Write a new file that only we can read; one that cannot be written in full is removed."""
        if time.monotonic() > self.over_at:
            raise _FailedError("was late")  # the server may be another one by now
        kept = content[: self.most_bytes]
        file = self.folder / name
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
                opened.write(kept)
        except OSError:
            with suppress(OSError):
                file.unlink()
            raise
        cut = "" if kept == content else f", the first of {len(content)}"
        with self._lock:
            self._saved[name] = f"{len(kept)} bytes{cut}"

    def _fail(self, name: str, why: str) -> None:
        with self._lock:
            self._failed[name] = why

    def _write_about(self) -> None:
        with self._lock:
            saved, failed = dict(self._saved), dict(self._failed)
        late = [name for name in self._works if name not in saved and name not in failed]
        about = {
            "attempt": self.attempt_id,
            "backend": self.backend.name,
            "url": self.backend.url,
            "at": f"{self.now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round(time.monotonic() - self.began, 2),
            "saved": saved,
            "failed": failed | dict.fromkeys(late, "did not end in time"),
        }
        try:
            self._write(exhibit.ABOUT, (json.dumps(about, indent=2) + "\n").encode())
        except OSError as error:
            self.tell("no_evidence" if not saved else "incomplete_evidence", error)
        except _FailedError:
            pass  # save() has told that it was late


def _works(backend: Backend) -> dict[str, Work]:
    """How each file comes about."""
    first, second = exhibit.METRICS
    works: dict[str, Work] = {
        exhibit.HEALTH: _health,
        first: lambda saving: _page(saving, fetch.METRICS),
        second: _metrics_later,
        exhibit.MODELS: lambda saving: _page(saving, "/v1/models"),
        exhibit.VERSION: lambda saving: _page(saving, "/version"),
    }
    for number, words in enumerate(backend.evidence, 1):
        works[command_name(number, words[0])] = _command(words)
    return works


def _page(saving: _Saving, path: str) -> bytes:
    with closing(Fetcher(saving.backend, "remediator")) as fetcher:
        page = fetcher.get(path, timeout=min(PAGE_SECONDS, saving.left(saving.work_until)))
    if isinstance(page, Failure):
        raise _FailedError(f"{page.kind}: {page.why}")
    return page.text.encode()


def _metrics_later(saving: _Saving) -> bytes:
    time.sleep(min(BETWEEN_SECONDS, saving.left(saving.work_until) / 2))
    return _page(saving, fetch.METRICS)


def _health(saving: _Saving) -> bytes:
    """The page has no text: what it says is how it answers."""
    began = time.monotonic()
    try:
        text = _page(saving, fetch.HEALTH)
    except _FailedError as error:
        return f"{error}\n".encode()
    return f"answered in {time.monotonic() - began:.3f} s\n".encode() + text


def _command(words: tuple[str, ...]) -> Work:
    def work(saving: _Saving) -> bytes:
        ended = capture(
            words,
            process.about(saving.backend),
            timeout=saving.left(saving.work_until),
            grace=saving.end_seconds / 4,
            most=saving.most_bytes - min(saving.most_bytes // 2, 4096),
        )
        status = "none" if ended.status is None else ended.status
        head = (
            f"argv: {json.dumps(words)}\nexit status: {status}\nseconds: {ended.seconds:.2f}\n"
            f"end: {ended.why}\n\n"
        )
        return head.encode() + ended.output

    return work


def _key(backend: Backend) -> bytes:
    """The API key, so that no file shows it; a very short one is found everywhere."""
    if backend.api_key_file is None:
        return b""
    try:
        key = backend.api_key_file.read_bytes().strip()
    except OSError:
        return b""
    return key if len(key) >= SHORTEST_KEY else b""
