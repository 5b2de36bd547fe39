"""Restarts each backend in the way that fleet.yml gives it, and tells what a way lacks here."""

import shutil
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from fleet.backend import Backend
from fleet.way import Command, Docker, Kubernetes, Systemd, Way
from remediator.restart import Outcome, Restarter

DRIVERS: dict[type[Way], str] = {
    Command: "Command",
    Systemd: "Systemd",
    Docker: "Docker",
    Kubernetes: "Kubernetes",
}
PACKAGES: dict[type[Way], str] = {Docker: "docker", Kubernetes: "kubernetes"}


class ByWay:
    """Has a driver for each way, imported when it is first needed: two want a package more."""

    def __init__(self) -> None:
        self._drivers: dict[type[Way], Restarter] = {}

    def restart(self, backend: Backend) -> Outcome:
        """Restart it by the driver for its way."""
        if backend.restart is None:
            return Outcome(ok=False, why=f"{backend.name} has no restart")
        way = type(backend.restart.way)
        try:
            driver = self._drivers.setdefault(way, _driver(way))
        except ImportError as error:
            why = f"{backend.name} cannot be restarted by {name(way)}: {error}"
            return Outcome(ok=False, why=why)
        return driver.restart(backend)


def name(way: type[Way]) -> str:
    """A way's name in fleet.yml, which is that of its driver's module."""
    return DRIVERS[way].lower()


def _driver(way: type[Way]) -> Restarter:
    module = import_module(f"remediator.restart.{name(way)}")
    driver: Restarter = getattr(module, DRIVERS[way])()
    return driver


def _has_package(package: str) -> bool:
    # A folder of that name in the working directory can be imported, too, and is no package.
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _has_program(program: str) -> bool:
    return shutil.which(program) is not None


def lacking(
    backends: Iterable[Backend],
    has_package: Callable[[str], bool] = _has_package,
    has_program: Callable[[str], bool] = _has_program,
) -> list[str]:
    """One sentence for each backend whose way needs what is not installed, and how to get it."""
    sentences = []
    for i, backend in enumerate(backends):
        if backend.restart is None:
            continue
        way = type(backend.restart.way)
        place = f"backends[{i}].restart.{name(way)}"
        package = PACKAGES.get(way)
        if package is not None and not has_package(package):
            sentences.append(
                f"{place}: needs the package {package}: pip install 'vllm-lifeguard[{package}]'"
            )
        if way is Systemd and not has_program("systemctl"):
            sentences.append(f"{place}: needs the program systemctl: apt-get install systemd")
    return sentences
