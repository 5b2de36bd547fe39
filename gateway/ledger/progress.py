"""How far the runs in hand are, all of a gateway's in one value.

It is written some twenty times a second. One row for all of them costs a fraction of a row for
each (docs/ledger.md has the figures).
"""

import json
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NAMES = struct.Struct("<I")
FIELDS = 7
WORD = 4


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one run is. ``prompt_tokens`` None: not known yet. Leg 0: none has begun."""

    serial: int
    prompt_tokens: int | None
    tokens: int
    leg: int
    backend: str
    leg_prompt: int
    leg_tokens: int


def packed(backends: Sequence[str], numbers: Iterable[int]) -> bytes:
    """Seven numbers a run, in the order of Progress; the prompt 1 more, a backend by place."""
    names = json.dumps(backends).encode()
    return NAMES.pack(len(names)) + names + array("I", numbers).tobytes()


def unpacked(data: bytes) -> Mapping[int, Progress]:
    """Each run's progress by its serial number; empty for no data."""
    if not data:
        return {}
    (length,) = NAMES.unpack_from(data)
    start = NAMES.size + length
    backends = json.loads(data[NAMES.size : start])
    numbers = array("I")
    numbers.frombytes(data[start : start + (len(data) - start) // WORD * WORD])
    found = {}
    for at in range(0, len(numbers), FIELDS):
        serial, prompt, tokens, leg, backend, leg_prompt, leg_tokens = numbers[at : at + FIELDS]
        name = backends[backend] if leg else ""
        charged = prompt - 1 if prompt else None
        found[serial] = Progress(serial, charged, tokens, leg, name, leg_prompt, leg_tokens)
    return found


def serial_of(run: str) -> int:
    """The serial number in a run's name."""
    return int(run.rpartition("-")[2], 16)
