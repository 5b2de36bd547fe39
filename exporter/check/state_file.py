"""What is remembered between two calls of a check, so that two waits can span them.

The moments in it are of the monotonic clock, which all processes of one boot share; one from
another boot, of another server or of another version is worth nothing and is begun anew.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_origin

import cattrs
from cattrs.preconf.json import make_converter

from fleet import __version__
from fleet.backend import Backend
from fleet.history import History

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Remembered:
    """One backend's history, how many of the last looks saw it dead, and when the first one was."""

    history: History
    dead_looks: int
    since: float


class StateFileError(Exception):
    """The state file cannot be used; the text says why in one sentence."""


def _converter() -> cattrs.Converter:
    converter = make_converter(forbid_extra_keys=True)

    def is_map(kind: Any) -> bool:  # noqa: ANN401 -- as cattrs has it
        return MappingProxyType in (kind, get_origin(kind))

    def read_map(value: Any, kind: Any) -> Any:  # noqa: ANN401 -- as cattrs has it
        of_values = get_args(kind)[1]
        return MappingProxyType(
            {str(name): converter.structure(item, of_values) for name, item in value.items()}
        )

    converter.register_structure_hook_func(is_map, read_map)
    converter.register_unstructure_hook_func(
        is_map, lambda value: {name: converter.unstructure(item) for name, item in value.items()}
    )
    return converter


CONVERTER = _converter()


def boot_id(file: Path = BOOT_ID) -> str:
    """Which boot of the machine this is; empty where the system does not tell."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


class StateFile:
    """A file of one's own for each set of servers that is checked. Calls take turns at it."""

    def __init__(self, file: Path, *, boot: str | None = None) -> None:
        self._file = file
        self._boot = boot_id() if boot is None else boot

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else uses it meanwhile. Raises StateFileError."""
        try:
            with self._file.with_name(f"{self._file.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise StateFileError(f"{self._file}: cannot be used: {error.strerror}") from None

    def load(self, backends: tuple[Backend, ...], now: float) -> dict[str, Remembered]:
        """What is remembered of these backends, by name; of what is not, there is nothing."""
        try:
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            usable = kept["version"] == __version__ and kept["boot"] == self._boot
            found = CONVERTER.structure(kept["backends"] if usable else {}, dict[str, Remembered])
        except (OSError, ValueError, LookupError, TypeError, cattrs.BaseValidationError):
            return {}
        keys = {_key(backend): backend.name for backend in backends}
        return {
            keys[key]: remembered
            for key, remembered in found.items()
            if key in keys and remembered.since <= now
        }

    def save(self, remembered: dict[str, Remembered], backends: tuple[Backend, ...]) -> None:
        """Replace the file whole. Raises StateFileError."""
        tree = {
            "version": __version__,
            "boot": self._boot,
            "backends": {
                _key(backend): CONVERTER.unstructure(remembered[backend.name])
                for backend in backends
            },
        }
        text = json.dumps(tree)
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self._file.parent, delete=False
            ) as new:
                new.write(text)
            os.replace(new.name, self._file)  # noqa: PTH105 -- atomic, over what is there
        except OSError as error:
            raise StateFileError(f"{self._file}: cannot be written: {error.strerror}") from None


def _key(backend: Backend) -> str:
    """Other patience is another watch."""
    return f"{backend.url} wait={backend.wait:g} warm_up={backend.warm_up:g}"
