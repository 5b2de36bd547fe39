"""What the ledger talks to, as tests want it."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.sql.dml import UpdateBase

from fleet.backend import Backend
from fleet.fetch import Failure, Page, Trouble
from fleet.prepared import Prepared
from gateway.ledger.database import Database, StorageError
from tests.gateway.ledger.making import T0

HOLD = 30.0


@dataclass
class Clock:
    """Both clocks; they stand still until they are told otherwise."""

    now: float = T0

    def __call__(self) -> float:
        return self.now


class BrokenDatabase(Database):
    """Commits nothing while ``broken``; while ``lost`` it commits, and its answer does not come.

    ``spared``: so many first ones go well all the same. ``lost_once``: so is a prepared statement's
    connection, once, with the answer: it is executed again.
    """

    broken = False
    lost = False
    spared = 0
    lost_once = False
    groups = 0
    attempts = 0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self.groups += 1
        with super().write() as connection:
            yield connection
            self.fail(at_last=False)
        self.fail(at_last=True)

    def prepared(self, statement: UpdateBase, columns: Sequence[str] | None = None) -> Prepared:
        prepared = BrokenPrepared(self._engine, statement, self._failure, columns)
        prepared.database = self
        self._prepared.append(prepared)
        return prepared

    def fail(self, *, at_last: bool) -> None:
        self.attempts += not at_last
        if self.lost if at_last else self.broken:
            if self.spared > 0:
                self.spared -= 1
                return
            what = "lost" if at_last else "broken"
            raise StorageError(f"the database does not answer as it should: it is {what}")


class BrokenPrepared(Prepared):
    """As broken as its database."""

    database: BrokenDatabase

    def execute(self, values: Mapping[str, Any]) -> int:
        self.database.fail(at_last=False)
        rows = super().execute(values)
        if self.database.lost_once:
            self.database.lost_once = False
            rows = super().execute(values)
        self.database.fail(at_last=True)
        return rows


class Disk:
    """Syncs what the process wants synced, and tells which files; not while it has a fault.

    ``asked`` is set when it is asked to; it does it when it ``goes_on``.
    """

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.fault = 0
        self.asked = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._sync = os.fdatasync

    def __call__(self, file: int) -> None:
        if self.fault:
            raise OSError(self.fault, os.strerror(self.fault))
        self.asked.set()
        self.goes_on.wait(HOLD)
        self._sync(file)
        self.synced.append(Path(f"/proc/self/fd/{file}").readlink().name)


@dataclass
class FakeServer:
    """A backend's page, as its counters stand."""

    start: float = T0
    generation: int = 0
    prompt: int = 0
    finished: int = 0
    fails: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, backend: Backend) -> Page | Failure:
        self.asked.append(backend.name)
        if self.fails:
            return Failure(Trouble.REFUSED, "the connection was refused")
        text = (
            f"process_start_time_seconds {self.start}\n"
            f'vllm:generation_tokens_total{{engine="0"}} {self.generation}\n'
            f'vllm:prompt_tokens_total{{engine="0"}} {self.prompt}\n'
            f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {self.finished}\n'
        )
        return Page(text, 0.01)
