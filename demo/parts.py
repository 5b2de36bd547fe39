"""Programs that are not ours: found on PATH, or installed from the distribution's packages.

python -m demo.parts            Prometheus and Alertmanager, for the demo and the path tests
python -m demo.parts browser    Chromium and its driver, for the tests of the page for people
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Debian renames Alertmanager's program.
PROGRAMS: Mapping[str, Sequence[str]] = {
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    "amtool": ("amtool",),
}
PACKAGES = ("prometheus", "prometheus-alertmanager")
# Others than Debian name it otherwise.
BROWSER_PROGRAMS: Mapping[str, Sequence[str]] = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "chromedriver": ("chromedriver",),
}
BROWSER_PACKAGES = ("chromium", "chromium-driver")
# Debian keeps it where only root's PATH leads.
NGINX_PROGRAMS: Mapping[str, Sequence[str]] = {"nginx": ("nginx", "/usr/sbin/nginx")}
NGINX_PACKAGES = ("nginx-light",)
# Debian keeps each version's programs in a folder of their own, and links few of them.
POSTGRESQL_PROGRAMS = ("initdb", "postgres")
POSTGRESQL_FOLDERS = "/usr/lib/postgresql"
# Without this file, the installation starts a database of its own.
NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/no-main-cluster.conf")
INSTALL_SECONDS = 600


class PartMissingError(Exception):
    """A program is missing and cannot be installed; the sentence says what to do."""


@dataclass(frozen=True)
class Parts:
    """The programs' paths."""

    prometheus: str
    promtool: str
    alertmanager: str
    amtool: str


@dataclass(frozen=True)
class Browser:
    """A browser's path and that of the program that drives it."""

    chromium: str
    chromedriver: str


def find() -> Parts:
    """The four programs; where some are missing, Debian's or Ubuntu's packages are installed.

    Raises PartMissingError where that cannot be done.
    """
    return Parts(**_found(PROGRAMS, PACKAGES))


def browser() -> Browser:
    """Chromium and its driver, likewise. Raises PartMissingError where that cannot be done."""
    return Browser(**_found(BROWSER_PROGRAMS, BROWSER_PACKAGES))


def nginx() -> str:
    """The path of nginx, likewise. Raises PartMissingError where that cannot be done."""
    return _found(NGINX_PROGRAMS, NGINX_PACKAGES)["nginx"]


def postgresql() -> Path:
    """The folder of PostgreSQL's programs, likewise. Raises PartMissingError.

    Nothing is started by the installation.
    """
    if _postgresql() is None:
        _install(("postgresql-common",))
        _write(NO_CLUSTER, "create_main_cluster = false")
        _install(("postgresql",))
    found = _postgresql()
    if found is None:
        raise PartMissingError(f"not on PATH: {', '.join(POSTGRESQL_PROGRAMS)}")
    return found


def _postgresql() -> Path | None:
    versions = sorted(Path(POSTGRESQL_FOLDERS).glob("[0-9]*/bin"), reverse=True)
    on_path = (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    for folder in (*versions, *on_path):
        if all((folder / program).is_file() for program in POSTGRESQL_PROGRAMS):
            return folder
    return None


def _write(file: Path, text: str) -> None:
    script = 'mkdir -p "$(dirname "$1")" && printf "%s\\n" "$2" > "$1"'
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if _run([*sudo, "sh", "-c", script, "sh", str(file), text]) != 0:
        raise PartMissingError(f"{file} cannot be written")


def _found(programs: Mapping[str, Sequence[str]], packages: Sequence[str]) -> dict[str, str]:
    if _missing(programs):
        _install(packages)
    missing = _missing(programs)
    if missing:
        raise PartMissingError(f"not on PATH: {', '.join(missing)}")
    return {name: _path(spellings) or "" for name, spellings in programs.items()}


def _path(spellings: Sequence[str]) -> str | None:
    return next(filter(None, map(shutil.which, spellings)), None)


def _missing(programs: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for name, spellings in programs.items() if _path(spellings) is None]


def _install(packages: Sequence[str]) -> None:
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None:
        raise PartMissingError(
            f"install what Debian packages as {' and '.join(packages)}, and put it on PATH"
        )
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and (shutil.which("sudo") is None or _run([*sudo, "true"]) != 0):
        raise PartMissingError(f"run as root: {' '.join(command)}")
    print(f"installing {' and '.join(packages)} from the distribution's packages …")
    _run([*sudo, "apt-get", "update"])
    if _run([*sudo, "env", "DEBIAN_FRONTEND=noninteractive", *command]) != 0:
        raise PartMissingError(f"this failed: {' '.join([*sudo, *command])}")


def _run(command: list[str]) -> int:
    return subprocess.run(
        command, check=False, timeout=INSTALL_SECONDS, stdout=subprocess.DEVNULL
    ).returncode


if __name__ == "__main__":
    try:
        browser() if sys.argv[1:] == ["browser"] else find()
    except PartMissingError as error:
        sys.exit(str(error))
