"""make demo: the incident and its answer, on a simulated fleet and real Prometheus."""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.live import Live

from demo import parts
from demo.child import NotReadyError, free_ports, sigterm_as_ctrl_c
from demo.incident import INTERVAL, LOAD_SECONDS, WAIT, Act, Incident, give_work_to_the_busy_one
from demo.scene import Scene, look
from demo.servers import Server
from demo.stack import Pace, Stack
from demo.view import view

NAMES = ("gpu-a", "gpu-b", "gpu-c")
LONGEST_SECONDS = 240.0
TICK_SECONDS = 0.25


def main() -> int:
    """Play it. Returns 0 if everything happened as it ought to, else 1; 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything up and print URLs")
    args = parser.parse_args()
    sigterm_as_ctrl_c()
    try:
        with tempfile.TemporaryDirectory(prefix="vllm-lifeguard-demo-") as folder:
            return _play(Path(folder), keep=args.keep)
    except (parts.PartMissingError, NotReadyError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ended; nothing was left running", file=sys.stderr)
        return 130


def _play(folder: Path, *, keep: bool) -> int:
    console = Console()
    programs = parts.find()
    servers = {
        name: Server(name, port, folder)
        for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)
    }
    with contextlib.ExitStack() as running:
        for server in servers.values():
            running.callback(server.stop)
            server.start(*_options(server))
        for server in servers.values():
            server.wait_ready()
        # Before the exporter starts: a server that is busy from the first look on is asked nothing.
        give_work_to_the_busy_one(servers["gpu-a"])
        stack = running.enter_context(Stack(folder, programs, _fleet(servers), Pace()))
        for name in ("gpu-b", "gpu-c"):
            servers[name].fault("batch", requests=3, max_tokens=30000)
        incident = _run(stack, servers, console)
        if keep:
            _keep(stack, console)
    for problem in incident.outcome.problems():
        console.print(f"not as it ought to be: {problem}", style="red")
    print(incident.outcome.result())
    return 1 if incident.outcome.problems() else 0


def _options(server: Server) -> list[str]:
    common = ["--load-seconds", str(LOAD_SECONDS)]
    # A slower prefill makes one long prompt last longer than two waits.
    return [*common, "--prefill-tokens-per-second", "600"] if server.name == "gpu-a" else common


def _fleet(servers: dict[str, Server]) -> dict[str, object]:
    return {
        "defaults": {"wait": f"{WAIT:.0f}s", "load_time": "60s"},
        "backends": [
            {
                "name": server.name,
                "url": server.url,
                "restart": {"command": server.restart_command, "timeout": "30s"},
            }
            for server in servers.values()
        ],
        "exporter": {"interval": f"{INTERVAL * 1000:.0f}ms", "timeout": f"{INTERVAL * 1000:.0f}ms"},
        "remediator": {
            "mode": "act",
            "confirm_for": "3s",
            "answer_within": "3s",
            "recheck_every": "2s",
            "cool_down": "15s",
        },
    }


def _run(stack: Stack, servers: dict[str, Server], console: Console) -> Incident:
    began = time.monotonic()
    said: list[str] = []

    def say(sentence: str) -> None:
        line = f"{time.monotonic() - began:5.1f} s  {sentence}"
        said.append(line)
        if not console.is_terminal:
            print(line, flush=True)

    incident = Incident(stack, servers, say)
    say("gpu-a reads one very long prompt while batch jobs queue for its slots")
    with _shown(console) as show:
        while incident.act is not Act.OVER and time.monotonic() - began < LONGEST_SECONDS:
            scene = look(stack, list(servers.values()))
            incident.step(scene)
            show(scene, time.monotonic() - began, incident.act, said)
            time.sleep(TICK_SECONDS)
    if console.is_terminal:
        console.print("\n".join(said))
    return incident


@contextlib.contextmanager
def _shown(console: Console) -> Iterator[Callable[[Scene, float, str, list[str]], None]]:
    """A live view on a terminal; elsewhere the sentences alone are enough."""
    if not console.is_terminal:
        yield lambda *_: None
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        yield lambda *shown: live.update(view(*shown), refresh=True)


def _keep(stack: Stack, console: Console) -> None:
    console.print("\nLeft running until Ctrl-C:")
    for name in ("exporter", "prometheus", "alertmanager", "remediator"):
        console.print(f"  {name:13} {getattr(stack, name)}/")
    console.print(f"  files         {stack.folder}")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1.0)


if __name__ == "__main__":
    sys.exit(main())
