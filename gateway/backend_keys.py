"""The servers' API keys, for a loop that must not wait: each look has them read elsewhere."""

import asyncio
import logging
from pathlib import Path

from fleet import secret_file
from fleet.backend import Backend
from fleet.secret_file import SecretError

log = logging.getLogger("gateway")


class BackendKeys:
    """Belongs to one loop. A key is as old as the last look; one that goes bad is kept and told."""

    def __init__(self) -> None:
        self._keys: dict[Path, str] = {}
        self._bad: dict[Path, str] = {}
        self._reading: dict[Path, asyncio.Task[str]] = {}

    def of(self, backend: Backend) -> str | None:
        """The key that was read last; None where there is none."""
        file = backend.api_key_file
        return None if file is None else self._keys.get(file)

    async def read(self, backend: Backend, patience: float) -> None:
        """Read it anew within ``patience`` seconds; what takes longer is not begun again."""
        file = backend.api_key_file
        if file is None:
            return
        reading = self._reading.get(file)
        if reading is None:
            reading = asyncio.create_task(asyncio.to_thread(secret_file.token, file))
            self._reading[file] = reading
        await asyncio.wait({reading}, timeout=patience)
        if not reading.done():
            self._tell(backend, file, f"{file}: is not read within {patience:g} s")
            return
        self._reading.pop(file, None)  # another backend may have the same file
        try:
            self._keys[file] = reading.result()
        except SecretError as error:
            self._tell(backend, file, str(error))
        else:
            self._bad.pop(file, None)

    def _tell(self, backend: Backend, file: Path, why: str) -> None:
        if self._bad.get(file) != why:
            self._bad[file] = why
            log.warning("event=api_key_not_read backend=%s why=%r", backend.name, why)
