"""Prometheus and Alertmanager: found on PATH, or installed from the distribution's packages."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

PACKAGES = {"prometheus": "prometheus", "alertmanager": "prometheus-alertmanager"}
# Debian renames Alertmanager's program.
PROGRAMS = {
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    "amtool": ("amtool",),
}
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


def find() -> Parts:
    """The four programs; where some are missing, Debian's or Ubuntu's packages are installed.

    Raises PartMissingError where that cannot be done.
    """
    if _missing():
        _install()
    missing = _missing()
    if missing:
        raise PartMissingError(f"not on PATH: {', '.join(missing)}")
    return Parts(**{name: _path(name) or "" for name in PROGRAMS})


def _path(name: str) -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS[name])), None)


def _missing() -> list[str]:
    return [name for name in PROGRAMS if _path(name) is None]


def _install() -> None:
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES.values()]
    if shutil.which("apt-get") is None:
        raise PartMissingError(
            "install Prometheus (with promtool) and Alertmanager (with amtool) and put them on PATH"
        )
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and (shutil.which("sudo") is None or _run([*sudo, "true"]) != 0):
        raise PartMissingError(f"run as root: {' '.join(command)}")
    print(f"installing {' and '.join(PACKAGES.values())} from the distribution's packages …")
    _run([*sudo, "apt-get", "update"])
    if _run([*sudo, "env", "DEBIAN_FRONTEND=noninteractive", *command]) != 0:
        raise PartMissingError(f"this failed: {' '.join([*sudo, *command])}")


def _run(command: list[str]) -> int:
    return subprocess.run(
        command, check=False, timeout=INSTALL_SECONDS, stdout=subprocess.DEVNULL
    ).returncode


if __name__ == "__main__":
    try:
        find()
    except PartMissingError as error:
        sys.exit(str(error))
