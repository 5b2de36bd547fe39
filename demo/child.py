"""Programs started for a while: each with a log of its own, all of them ended again."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import requests

STOP_SECONDS = 10.0


class NotReadyError(Exception):
    """A program did not become ready; the sentence names it and shows the end of its log."""


class Child:
    """One program in a session of its own, so that a Ctrl-C reaches us first and it last."""

    def __init__(
        self, name: str, argv: Sequence[str], folder: Path, *, env: Mapping[str, str] | None = None
    ) -> None:
        """Start ``argv``; what it says goes to ``folder``/``name``.log."""
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        """The process id, which is also that of its process group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the program has not ended yet."""
        return self._process.poll() is None

    def wait_ready(self, url: str, *, timeout: float = 60.0) -> None:
        """Wait until ``url`` answers 200. Raises NotReadyError if that does not come to be."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self.is_running:
            with contextlib.suppress(requests.RequestException):
                if requests.get(url, timeout=2.0).ok:
                    return
            time.sleep(0.1)
        end = "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])
        raise NotReadyError(f"{self.name} did not become ready; its log ends:\n{end}")

    def stop(self, patience: float = STOP_SECONDS) -> int:
        """SIGTERM to its whole process group, SIGKILL after ``patience``; its exit status."""
        self.signal(signal.SIGTERM)
        try:
            status = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            status = self._process.wait()
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def sigterm_as_ctrl_c() -> None:
    """From now on SIGTERM ends this program as Ctrl-C does: what it has started ends before it."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, all different.

    While this process lives, the kernel gives them to nobody who asks for any port: each stays
    bound to a socket that does not listen, which is no hindrance to a server that asks for this
    port with SO_REUSEADDR, as servers do.
    """
    sockets = [socket.socket() for _ in range(count)]
    for sock in sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
    ports: list[int] = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.detach()
    return ports
