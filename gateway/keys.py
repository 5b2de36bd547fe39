"""Who may ask: API keys from a file that holds only their hashes.

A line is ``NAME:`` and the SHA-256 of the key in hexadecimal digits; empty lines and those that
begin with ``#`` are left out. Several lines may have one name: several keys of one caller, one of
them new while the other is still in use. A key has 256 random bits, so its plain hash tells nothing
that could be tried out; it is looked up by its hash, which takes no longer for one that is nearly
right.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

LOOK_EVERY_SECONDS = 1.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ANONYMOUS = "anonymous"
# As many digits of a key's hash as name a caller where there are no names.
SHORT = 16

log = logging.getLogger("gateway")


class KeysError(Exception):
    """The file of keys cannot be used; one sentence with the place, and never a key."""


@dataclass(frozen=True)
class Caller:
    """Who asks: ``id`` is the caller in the ledger; with a file of keys it is the name."""

    name: str
    id: str


class Keys:
    """The callers of a file, read again when it has changed. Belongs to one thread.

    Without a file everybody is a caller, one for each key that is sent. Raises KeysError; a file
    that goes bad later is told in the log, and those count that were read last. ``clock`` tells
    monotonic seconds.
    """

    def __init__(self, file: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._looked_at = clock()
        self._version: tuple[int, int, int] | None = None
        self._callers: Mapping[str, Caller] = {}
        if file is not None:
            self._version = _version(file)
            self._callers = read(file)

    def caller(self, authorization: str) -> Caller | None:
        """Who sends this Authorization header (empty for none), None for nobody known."""
        scheme, _, key = authorization.strip().partition(" ")
        key = key.strip() if scheme.lower() == "bearer" else ""
        if self._file is None:
            name = f"key-{_digest(key)[:SHORT]}" if key else ANONYMOUS
            return Caller(name, name)
        self._look(self._file)
        return self._callers.get(_digest(key)) if key else None

    def knows(self, caller_id: str) -> bool:
        """Whether there still is a caller of this id."""
        if self._file is None:
            return True
        self._look(self._file)
        return any(caller.id == caller_id for caller in self._callers.values())

    def _look(self, file: Path) -> None:
        now = self._clock()
        if now - self._looked_at < LOOK_EVERY_SECONDS:
            return
        self._looked_at = now
        version = _version(file)
        if version == self._version:
            return
        self._version = version
        try:
            self._callers = read(file)
        except KeysError as error:
            log.warning("event=keys_not_read why=%r", str(error))
        else:
            log.info("event=keys_read keys=%d", len(self._callers))


def read(file: Path) -> Mapping[str, Caller]:
    """Return the callers by the hashes of their keys. Raises KeysError."""
    try:
        text = file.read_text(encoding="ascii")
    except UnicodeDecodeError:
        raise KeysError(f"{file}: is not ASCII text") from None
    except OSError as error:
        raise KeysError(f"{file}: cannot be read: {error.strerror}") from None
    return parse(text, str(file))


def parse(text: str, place: str) -> Mapping[str, Caller]:
    """Return the callers of a text; ``place`` is where it stands. Raises KeysError."""
    callers: dict[str, Caller] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, digest = (part.strip() for part in line.partition(":"))
        digest = digest.lower()
        if not colon or not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise KeysError(
                f"{place}:{number}: is not a name, a colon and the SHA-256 of a key in 64 "
                "hexadecimal digits ('vllm-gateway keys new NAME' makes such a line)"
            )
        if not NAME.fullmatch(name):
            raise KeysError(
                f"{place}:{number}: the name must be 1 to 64 letters, digits and . _ -, "
                "and begin with a letter or digit"
            )
        if digest in callers:
            raise KeysError(f"{place}:{number}: {name}'s key stands there already")
        callers[digest] = Caller(name, name)
    return callers


def line(name: str, key: str) -> str:
    """The line that lets the bearer of ``key`` in."""
    return f"{name}:{_digest(key)}"


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", errors="surrogateescape")).hexdigest()


def _version(file: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None where it cannot be looked at."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
