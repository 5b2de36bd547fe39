"""I/O: streams that a killed gateway left behind, until somebody goes on with them.

One file for each, readable by this user alone, deleted when it is taken up or too old.
"""

import contextlib
import hashlib
import json
import os
from array import array
from dataclasses import dataclass
from pathlib import Path

from gateway.ledger.entries import Found
from gateway.ledger.segment import PRIVATE

SUFFIX = ".left"
NEW = ".new"


@dataclass(frozen=True)
class Left:
    """What is needed to go on: ``ids`` are those delivered after ``snapshot`` was made.

    ``delivered`` is how many were delivered in all, in the run ``run``.
    """

    run: str
    prompt_tokens: int | None
    delivered: int
    snapshot: bytes
    ids: "array[int]"


def leave(folder: Path, run: Found) -> None:
    """Put a stream where ``take`` finds it, if there is something to go on with."""
    if run.closed is not None or run.snapshot is None:
        return
    head = json.dumps(
        {
            "run": run.run,
            "prompt_tokens": run.prompt_tokens,
            "delivered": run.completion_tokens,
            "snapshot": len(run.snapshot),
        }
    ).encode()
    path = _path(folder, run.opened.caller, run.opened.request_id)
    new = path.with_suffix(NEW)
    file = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, PRIVATE)
    with os.fdopen(file, "wb") as out:
        out.write(head + b"\n" + run.snapshot + run.ids[run.since :].tobytes())
    new.rename(path)


def take(folder: Path, caller: str, request_id: str) -> Left | None:
    """What is left of a stream, once: afterwards it is gone."""
    path = _path(folder, caller, request_id)
    ours = path.with_suffix(f".{os.getpid()}{NEW}")
    try:
        path.rename(ours)
    except FileNotFoundError:
        return None
    data = ours.read_bytes()
    ours.unlink()
    head, _, rest = data.partition(b"\n")
    fields = json.loads(head)
    ids = array("I")
    ids.frombytes(rest[fields["snapshot"] :])
    snapshot = rest[: fields["snapshot"]]
    return Left(fields["run"], fields["prompt_tokens"], fields["delivered"], snapshot, ids)


def expire(folder: Path, before: float) -> int:
    """Delete what was left before a moment (Unix seconds); returns how many there were."""
    deleted = 0
    for path in [*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{NEW}")]:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()
                deleted += 1
    return deleted


def _path(folder: Path, caller: str, request_id: str) -> Path:
    text = json.dumps([caller, request_id])
    return folder / (hashlib.sha256(text.encode()).hexdigest()[:40] + SUFFIX)
