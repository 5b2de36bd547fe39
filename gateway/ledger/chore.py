"""I/O: a thread that does the same for the database again and again."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("gateway")


class Chore:
    """Done while it is started, each time ``every`` seconds after the last one, and at the end.

    ``done`` says in one word what is done then. A failure is logged once until it is over, or is
    another one.
    """

    def __init__(self, done: str, every: float, do: Callable[[], None]) -> None:
        self._done = done
        self._every = every
        self._do = do
        self._why = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ledger-{done}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and do it a last time."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
            self.make()

    def make(self) -> None:
        """Do it once, now."""
        why = ""
        try:
            self._do()
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is tried again
            why = str(error)
            if why != self._why:
                log.warning("event=ledger_not_%s why=%r", self._done, why)
        self._why = why

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            self.make()
