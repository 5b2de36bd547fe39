"""One real vLLM server as a service: start, stop, restart, freeze, thaw.

    python -m tests.real.vllm_server restart --dir DIR --port N [--dev] [-- FLAGS OF vllm serve]

fits where an init script fits, so also as a restart command. DIR keeps `server.log` and
`server.pid`. `start` and `restart` return at once; `wait_ready` waits.

The server leads a session of its own, and everything here is done to that session only. The
pid file holds the leader's number, start time and boot. Invariant: a session found by the pid
file is ours. While any of its processes lives (the engine outlives a killed leader), the kernel
gives the leader's number to nobody else; when they are all gone, a new owner of the number has
another start time, and after a boot the file is void.
"""

import argparse
import fcntl
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.real.vllm_environment import NotMadeError, existing, make

FLAGS = (
    *("--host", "127.0.0.1"),
    *("--served-model-name", "tiny"),
    "--enforce-eager",
    *("--dtype", "float32"),
    *("--max-num-seqs", "4"),
    *("--max-num-batched-tokens", "1024"),
)
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
ENGINE = "VLLM::EngineCore"
READY_SECONDS = 600.0
TERM_TO_KILL_SECONDS = 10.0
KILL_TO_GONE_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.1
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServiceError(Exception):
    """What was asked for cannot be done, with the reason."""


@dataclass(frozen=True)
class Server:
    """One server: its folder, its port and the flags that are not everybody's."""

    folder: Path
    port: int
    flags: tuple[str, ...] = ()
    dev: bool = False  # /pause, /is_paused, /sleep

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it and its predecessors said."""
        return self.folder / "server.log"

    @property
    def pid_file(self) -> Path:
        """Who leads its session."""
        return self.folder / "server.pid"


@dataclass(frozen=True)
class Process:
    """A living process, read from /proc."""

    pid: int
    state: str
    session: int
    started: int  # clock ticks since boot
    title: str


def processes(proc: Path = Path("/proc")) -> Iterator[Process]:
    """Yield the living processes of the machine; a zombie does not live."""
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError):
            # The name in brackets may hold blanks and brackets itself.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            process = Process(
                pid=int(folder.name),
                state=fields[0],
                session=int(fields[3]),
                started=int(fields[19]),
                title=title.strip(),
            )
            if process.state not in ("Z", "X"):
                yield process


def members(server: Server) -> list[Process]:
    """Return the server's living processes, its leader (when it lives) first."""
    try:
        leader, started, boot = server.pid_file.read_text().split()
    except (FileNotFoundError, ValueError):
        return []
    if boot != _boot():
        return []
    found = [process for process in processes() if process.session == int(leader)]
    found.sort(key=lambda process: process.started)
    taken_over = any(p.pid == int(leader) and p.started != int(started) for p in found)
    return [] if taken_over else found


def engines(server: Server) -> list[Process]:
    """Return the server's living engine processes."""
    return [process for process in members(server) if process.title.startswith(ENGINE)]


def start(server: Server) -> int:
    """Start the server detached and return its leader's number; one that runs is left alone."""
    with _alone_with(server):
        return _start(server)


def stop(server: Server, term_to_kill: float = TERM_TO_KILL_SECONDS) -> None:
    """End every process of the server: SIGTERM, then SIGKILL, which also ends a frozen one."""
    with _alone_with(server):
        _stop(server, term_to_kill)


def restart(server: Server, term_to_kill: float = TERM_TO_KILL_SECONDS) -> int:
    """Stop the server and start it; nobody gets in between."""
    with _alone_with(server):
        _stop(server, term_to_kill)
        return _start(server)


def freeze(server: Server) -> list[int]:
    """Stop (SIGSTOP) the server's engines and return their numbers once they have stopped."""
    return _signal_engines(server, signal.SIGSTOP, lambda state: state == "T")


def thaw(server: Server) -> list[int]:
    """Let (SIGCONT) the server's engines go on and return their numbers."""
    return _signal_engines(server, signal.SIGCONT, lambda state: state != "T")


def wait_ready(
    url: str, deadline: float, still_running: Callable[[], object] = lambda: True
) -> None:
    """Return when GET /health says 200; raise at the (monotonic) deadline or when it has ended."""
    while time.monotonic() < deadline:
        with suppress(OSError), DIRECT.open(f"{url}/health", timeout=2.0) as health:
            if health.status == 200:
                return
        if not still_running():
            raise ServiceError(f"{url}: ended before it was ready")
        time.sleep(LOOK_EVERY_SECONDS)
    raise TimeoutError(f"{url}: not ready in time")


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, ready; made first where this machine has no vLLM, and stopped in the end."""
    make()
    try:
        start(server)
        wait_ready(server.url, time.monotonic() + READY_SECONDS)
        yield server
    finally:
        stop(server)


def _start(server: Server) -> int:
    living = members(server)
    if _led(living):
        return living[0].pid
    if living:
        left = [process.pid for process in living]
        raise ServiceError(f"the server has died, its processes {left} live: restart it")
    environment = existing()
    command = [
        *(str(environment.vllm), "serve", str(environment.model)),
        *FLAGS,
        *("--port", str(server.port)),
        *server.flags,
    ]
    variables = os.environ | VARIABLES | ({"VLLM_SERVER_DEV_MODE": "1"} if server.dev else {})
    to_log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    leader = os.posix_spawn(
        command[0],
        command,
        variables,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(server.log), to_log, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    started = next((p.started for p in processes() if p.pid == leader), 0)
    unfinished = server.pid_file.with_suffix(".unfinished")
    unfinished.write_text(f"{leader} {started} {_boot()}\n")
    unfinished.replace(server.pid_file)
    return leader


def _stop(server: Server, term_to_kill: float) -> None:
    # While the leader lives SIGTERM is for it alone: sent to its engine too, it cuts the streams
    # that a --shutdown-timeout would let end.
    if not _end(server, signal.SIGTERM, term_to_kill, whom=_leader_or_all):
        _end(server, signal.SIGKILL, KILL_TO_GONE_SECONDS, whom=lambda living: living)
    if outlived := members(server):
        raise ServiceError(f"processes {[process.pid for process in outlived]} outlived SIGKILL")
    with suppress(FileNotFoundError, ValueError, ChildProcessError):
        # Only when the one who started it stops it is the leader our child, now a zombie.
        os.waitpid(int(server.pid_file.read_text().split()[0]), os.WNOHANG)
    server.pid_file.unlink(missing_ok=True)


def _end(
    server: Server,
    number: signal.Signals,
    seconds: float,
    whom: Callable[[list[Process]], list[Process]],
) -> bool:
    deadline = time.monotonic() + seconds
    told: set[int] = set()
    while living := members(server):
        for process in whom(living):
            if process.pid not in told:
                _send(process, number)
                told.add(process.pid)
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY_SECONDS)
    return True


def _leader_or_all(living: list[Process]) -> list[Process]:
    return living[:1] if _led(living) else living


def _led(living: list[Process]) -> bool:
    return bool(living) and living[0].pid == living[0].session


def _signal_engines(
    server: Server, number: signal.Signals, done: Callable[[str], bool]
) -> list[int]:
    with _alone_with(server):
        found = engines(server)
        if not found:
            raise ServiceError(f"no living {ENGINE} belongs to {server.folder}")
        for process in found:
            _send(process, number)
        while not all(done(process.state) for process in engines(server)):
            time.sleep(LOOK_EVERY_SECONDS)
        return [process.pid for process in found]


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@contextmanager
def _alone_with(server: Server) -> Iterator[None]:
    server.folder.mkdir(parents=True, exist_ok=True)
    with (server.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str]) -> int:
    """Do one thing to one server; 0 when it is done, 1 with the reason when it cannot be."""
    ours, flags = _split(arguments)
    parser = argparse.ArgumentParser(prog="python -m tests.real.vllm_server", description=__doc__)
    parser.add_argument("act", choices=("start", "stop", "restart", "freeze", "thaw"))
    parser.add_argument("--dir", type=Path, required=True, help="log, pid file and lock")
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    parser.add_argument("--dev", action="store_true", help="serve /pause, /is_paused, /sleep too")
    parser.add_argument(
        "--term-to-kill",
        type=float,
        default=TERM_TO_KILL_SECONDS,
        metavar="SECONDS",
        help="from SIGTERM to SIGKILL (%(default)s); more than a --shutdown-timeout",
    )
    told = parser.parse_args(ours)
    server = Server(told.dir.absolute(), told.port, tuple(flags), dev=told.dev)
    acts: dict[str, Callable[[], object]] = {
        "start": lambda: start(server),
        "stop": lambda: stop(server, told.term_to_kill),
        "restart": lambda: restart(server, told.term_to_kill),
        "freeze": lambda: freeze(server),
        "thaw": lambda: thaw(server),
    }
    try:
        result = acts[told.act]()
    except (NotMadeError, ServiceError) as error:
        sys.stderr.write(f"{told.act}: {error}\n")
        return 1
    sys.stdout.write(f"{told.act}: {'done' if result is None else result}\n")
    return 0


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    if "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
