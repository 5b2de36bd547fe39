"""I/O: simulated servers as services, in the manner of an init script.

``python -m demo.vllm.service start|stop|restart|status --dir DIR NAME [-- server arguments]``
"""

import argparse
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TERM_SECONDS = 5.0
KILL_SECONDS = 5.0
POLL_SECONDS = 0.05


class Status(IntEnum):
    """What the program's exit status says."""

    DONE = 0
    BAD_COMMAND_LINE = 2
    NOT_RUNNING = 3
    ALREADY_RUNNING = 4
    UNKNOWN = 5
    NOT_STOPPED = 6
    NOT_MADE = 7


class Failure(Exception):  # noqa: N818 - the status says which
    """An exit status other than DONE, and one sentence why."""

    def __init__(self, status: Status, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Run:
    """One process: the arguments it was started with, and what tells it from another of its pid.

    ``since`` is the start of the process in ticks since boot; None where /proc does not tell.
    """

    arguments: tuple[str, ...]
    pid: int
    since: int | None


class Service:
    """A server that is started again with the arguments it had."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self._pid_file = directory / f"{name}.pid"
        self._record = directory / f"{name}.json"
        self._log = directory / f"{name}.log"
        self._lock = directory / f"{name}.lock"

    def start(self, arguments: Sequence[str] | None) -> str:
        """Start it; without arguments with those it had last."""
        last = self._last()
        if last and _alive(last):
            why = f"{self.name} is already running, as process {last.pid}"
            raise Failure(Status.ALREADY_RUNNING, why)
        if arguments is None:
            arguments = last.arguments if last else ()
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "demo.vllm", *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        run = Run(tuple(arguments), process.pid, _since(process.pid))
        self._record.write_text(json.dumps(asdict(run)) + "\n")
        self._pid_file.write_text(f"{process.pid}\n")
        return f"{self.name} is starting, as process {process.pid}"

    def stop(self) -> str:
        """SIGTERM to the process group, then SIGKILL."""
        run = self._running()
        for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            _signal(run, number)
            if _gone(run, seconds):
                self._pid_file.unlink(missing_ok=True)
                return f"{self.name} is stopped"
        why = f"{self.name} survived SIGKILL, as process {run.pid}"
        raise Failure(Status.NOT_STOPPED, why)

    def restart(self, arguments: Sequence[str] | None) -> str:
        """Stop it if it runs, then start it."""
        last = self._last()
        if last is None and arguments is None:
            raise Failure(Status.UNKNOWN, f"{self.name} has never been started here")
        if last and _alive(last):
            self.stop()
        return self.start(arguments)

    def status(self) -> str:
        """Say that it runs."""
        return f"{self.name} is running, as process {self._running().pid}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second call for the same service waiting until this one is over."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _running(self) -> Run:
        last = self._last()
        if last is None:
            raise Failure(Status.UNKNOWN, f"{self.name} has never been started here")
        if not _alive(last):
            raise Failure(Status.NOT_RUNNING, f"{self.name} is not running")
        return last

    def _last(self) -> Run | None:
        try:
            record = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        return Run(tuple(record["arguments"]), record["pid"], record["since"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, print one sentence, return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    server_arguments = None
    if "--" in given:
        cut = given.index("--")
        given, server_arguments = given[:cut], given[cut + 1 :]
    parser = argparse.ArgumentParser(prog="python -m demo.vllm.service", allow_abbrev=False)
    parser.add_argument("command", choices=("start", "stop", "restart", "status"))
    parser.add_argument("--dir", type=Path, required=True, help="for the files of all services")
    parser.add_argument("name", type=_name)
    wanted = parser.parse_args(given)
    service = Service(wanted.dir, wanted.name)
    try:
        wanted.dir.mkdir(parents=True, exist_ok=True)
        with service.locked():
            sentence = _carry_out(service, wanted.command, server_arguments)
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        return failure.status
    except OSError as error:
        sys.stderr.write(f"{wanted.command} {wanted.name}: {error}\n")
        return Status.NOT_MADE
    sys.stdout.write(f"{sentence}\n")
    return Status.DONE


def _carry_out(service: Service, command: str, arguments: Sequence[str] | None) -> str:
    match command:
        case "start":
            return service.start(arguments)
        case "stop":
            return service.stop()
        case "restart":
            return service.restart(arguments)
        case _:
            return service.status()


def _name(text: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*", text):
        raise argparse.ArgumentTypeError(f"a name has letters, digits, dots and dashes: {text!r}")
    return text


def _signal(run: Run, number: signal.Signals) -> None:
    try:
        os.killpg(run.pid, number)
    except ProcessLookupError:
        return


def _gone(run: Run, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _alive(run):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _alive(run: Run) -> bool:
    """Whether that very process runs, not a later one with its pid, nor its zombie.

    A wrong yes would end a stranger.
    """
    since = _since(run.pid)
    if since is not None or run.since is not None:
        return since == run.since
    try:
        os.kill(run.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _since(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


if __name__ == "__main__":
    sys.exit(main())
