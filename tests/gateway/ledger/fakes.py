"""What the ledger talks to, as tests want it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection

from fleet.backend import Backend
from fleet.fetch import Failure, Page, Trouble
from gateway.ledger.database import Database, StorageError
from tests.gateway.ledger.making import T0


@dataclass
class Clock:
    """Both clocks; they stand still until they are told otherwise."""

    now: float = T0

    def __call__(self) -> float:
        return self.now


class BrokenDatabase(Database):
    """Commits nothing while ``broken``; while ``lost`` it commits, and its answer does not come."""

    broken = False
    lost = False

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with super().write() as connection:
            yield connection
            if self.broken:
                raise StorageError("the database does not answer as it should: it is broken")
        if self.lost:
            raise StorageError("the database does not answer as it should: it is lost")


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
