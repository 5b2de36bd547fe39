"""Counts the tokens of an answer that is relayed as it is, by the usage it states of itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

# A whole answer is looked through, of a stream the last piece: usage stands at its end.
MOST_KEPT = 4 * 1024 * 1024
TAIL = 256 * 1024
DATA = b"data:"


@dataclass(frozen=True)
class Used:
    """Tokens as the server counts them; both 0 where it says nothing."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Tally:
    """Takes an answer piece by piece."""

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """A piece of the answer."""
        self._kept += data
        most = TAIL if self._stream else MOST_KEPT
        if len(self._kept) > 2 * most:
            del self._kept[:-most]

    def used(self) -> Used:
        """What the answer states; of several statements in a stream the last."""
        if not self._stream:
            return _used(bytes(self._kept)) or Used()
        for line in reversed(bytes(self._kept).splitlines()):
            if line.startswith(DATA):
                found = _used(line.removeprefix(DATA))
                if found is not None:
                    return found
        return Used()


def _used(text: bytes) -> Used | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for holder in (value, value.get("response") if isinstance(value, dict) else None):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, Mapping):
            prompt = _count(usage, "prompt_tokens", "input_tokens")
            return Used(prompt, _count(usage, "completion_tokens", "output_tokens"))
    return None


def _count(usage: Mapping[str, object], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int):
            return value
    return 0
