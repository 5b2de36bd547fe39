"""Programs from the Python package index, each in a virtual environment of its own.

They are installed on first use, in .cache/ beside this project's other finds, and stay there.
"""

import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache"
INSTALL_SECONDS = 600


class NotInstallableError(Exception):
    """A package cannot be installed here; the sentence is the installer's own."""


def program(name: str, package: str) -> str:
    """The path of a package's program. Raises NotInstallableError."""
    folder = CACHE / name
    found = folder / "bin" / name
    if not found.exists():
        _uv("venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder))
        _uv("pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), package)
    if not found.exists():
        raise NotInstallableError(f"{package} brings no program named {name}")
    return str(found)


def _uv(*arguments: str) -> None:
    try:
        subprocess.run(
            [sys.executable, "-m", "uv", *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.split())
        raise NotInstallableError(said or f"uv ended with {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise NotInstallableError(f"not done within {INSTALL_SECONDS} s") from None
