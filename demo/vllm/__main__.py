"""``python -m demo.vllm``: one simulated vLLM server in this process."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from queue import Empty, SimpleQueue

from demo.vllm import journal
from demo.vllm.limits import Limits
from demo.vllm.server import Ending, Server, report, started
from demo.vllm.settings import Settings

LIMIT_OPTIONS = {
    "--max-num-seqs": "requests running at once, per engine",
    "--max-num-batched-tokens": "tokens per step, which is the prefill chunk",
    "--max-model-len": "prompt plus output, tokens",
    "--block-size": "tokens per KV block",
    "--num-gpu-blocks-override": "KV blocks, one of which is never used",
    "--steps-per-second": "pace of steps that decode only",
    "--prefill-tokens-per-second": "prompt tokens of a step, divided by this, are added seconds",
}


def settings(arguments: Sequence[str] | None) -> Settings:
    """Read the command line; a mistake ends the program with status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.vllm",
        description="A simulated vLLM server that can freeze, die and prefill for minutes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    standard = Settings()
    parser.add_argument("--host", default=standard.host, help="address to listen on")
    parser.add_argument("--port", type=int, default=standard.port, help="0: the system chooses")
    parser.add_argument("--model", default=standard.model, help="name served")
    defaults = {field.name: field.default for field in fields(Limits)}
    for option, meaning in LIMIT_OPTIONS.items():
        name = _limit(option)
        parser.add_argument(
            option, dest=name, type=type(defaults[name]), default=defaults[name], help=meaning
        )
    parser.add_argument(
        "--data-parallel-size", type=int, default=1, help="engines; several imply --multiprocess"
    )
    parser.add_argument(
        "--multiprocess", action="store_true", help="metrics as with --api-server-count 2"
    )
    parser.add_argument(
        "--load-seconds", type=float, default=0.0, help="the port opens this long after the start"
    )
    given = vars(parser.parse_args(arguments))
    try:
        limits = Limits(**{_limit(option): given.pop(_limit(option)) for option in LIMIT_OPTIONS})
        return Settings(limits=limits, **given)
    except ValueError as error:
        parser.error(str(error))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to end, or until the engine is dead."""
    wanted = settings(arguments)
    endings: SimpleQueue[Ending] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: endings.put(Ending.TERMINATED))
    try:
        endings.get(timeout=wanted.load_seconds)
    except Empty:
        return _serve(wanted, endings)
    return 0


def _serve(wanted: Settings, endings: SimpleQueue[Ending]) -> int:
    try:
        server = Server(wanted, endings)
    except OSError as error:
        report(journal.line("failed", host=wanted.host, port=wanted.port, why=error.strerror))
        return 1
    with server:
        started(server, wanted)
        sys.stdout.write(f"ready url={server.url} pid={os.getpid()}\n")
        sys.stdout.flush()
        ending = server.wait()
    report(journal.line("end", why=ending))
    return 0


def _limit(option: str) -> str:
    return option.removeprefix("--").removesuffix("-override").replace("-", "_")


if __name__ == "__main__":
    sys.exit(main())
