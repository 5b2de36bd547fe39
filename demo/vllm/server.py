"""I/O: a whole simulated server, for a process of its own or inside another one."""

import sys
import threading
from enum import StrEnum
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from demo.vllm import journal
from demo.vllm.api import Api
from demo.vllm.handler import Handler
from demo.vllm.listener import Listener
from demo.vllm.settings import Settings

AFTER_DEATH_SECONDS = 3.0


class Ending(StrEnum):
    """Why a server is over."""

    TERMINATED = "terminated"
    ENGINE_DEAD = "engine_dead"


class Server:
    """The port is open from here on; OSError when it cannot be had.

    ``with`` starts and stops it. ``wait`` returns the first of ``endings``, which signal handlers
    may put there; a dead engine does so by itself, when it has closed the port.
    """

    def __init__(self, settings: Settings, endings: SimpleQueue[Ending] | None = None) -> None:
        self._endings = SimpleQueue() if endings is None else endings
        self._stopping = threading.Lock()
        self._running = False
        self._death: threading.Timer | None = None
        self._api = Api(settings, report, self._died)
        self._listener = Listener((settings.host, settings.port), partial(Handler, self._api))
        host, port = self._listener.server_address[:2]
        self.port = int(port)
        self.url = f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Begin to serve."""
        self._running = True
        self._api.loop.start()
        self._listener.start()

    def stop(self) -> None:
        """Cut what is open and close the port; again does nothing."""
        with self._stopping:
            if not self._running:
                return
            self._running = False
            if self._death:
                self._death.cancel()
            self._api.mute.open()
            self._api.loop.stop()
            self._listener.stop()

    def wait(self) -> Ending:
        """Wait for the end."""
        return self._endings.get()

    def _died(self) -> None:
        if self._death is None:
            self._death = threading.Timer(AFTER_DEATH_SECONDS, self._follow)
            self._death.daemon = True
            self._death.start()

    def _follow(self) -> None:
        self.stop()
        self._endings.put(Ending.ENGINE_DEAD)


def report(line: str) -> None:
    """Write one line about an event."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def started(server: Server, settings: Settings) -> None:
    """Report a start."""
    report(
        journal.line(
            "start",
            url=server.url,
            model=settings.model,
            engines=settings.data_parallel_size,
            shape=settings.shape,
            max_num_seqs=settings.limits.max_num_seqs,
            steps_per_second=settings.limits.steps_per_second,
        )
    )
