"""Stop strings, searched over the joined text of all legs exactly as vLLM searches them.

vLLM holds back the longest stop string less one character from each frame, looks for the match
that ends first, cuts the text in front of it (or behind it: include_stop_str_in_output, when
nothing is held back), and does not count a match that ends within the first min_tokens tokens.
Source: vllm/v1/engine/detokenizer.py, check_stop_strings, in 0.32.0.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Hit:
    """The stop string that was found, and the text in front of the end that was not given out."""

    stop: str
    text: str


class Stops:
    """The search in one answer.

    Invariant: what was given out and ``held`` are together the text that was fed. Only the last
    characters are kept: as many as the longest stop string has, less one.
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False, min_tokens: int = 0) -> None:
        self._stops = tuple(stops)
        self._include = include
        self._min_tokens = min_tokens
        self._behind = max(map(len, self._stops), default=1) - 1
        self._tail = ""
        self.held = ""

    def feed(self, text: str, tokens: int) -> str | Hit:
        """Take the next text and how many tokens there are with it; return what may go out."""
        window = self._tail + text
        if tokens > self._min_tokens and (found := self._found(window, len(self._tail))):
            stop, start = found
            end = start + len(stop) if self._include else start
            # The held text is the end of the tail: all of it lies within the window.
            return Hit(stop, window[len(self._tail) - len(self.held) : end])
        self._tail = window[-self._behind :] if self._behind else ""
        out = self.held + text
        keep = 0 if self._include else self._behind
        self.held = out[-keep:] if keep else ""
        return out[: len(out) - len(self.held)]

    def rest(self, text: str) -> str:
        """Take the last text of an answer that ended of itself; return all that is left."""
        out, self.held, self._tail = self.held + text, "", ""
        return out

    def snapshot(self) -> list[str]:
        """Return what another gateway needs to search on."""
        return [self._tail, self.held]

    def restore(self, snapshot: Sequence[str]) -> None:
        """Search on from a snapshot."""
        self._tail, self.held = snapshot

    def _found(self, window: str, new: int) -> tuple[str, int] | None:
        best: tuple[int, str, int] | None = None
        for stop in self._stops:
            start = window.find(stop, max(0, new - len(stop) + 1))
            if start >= 0 and (best is None or start + len(stop) < best[0]):
                best = start + len(stop), stop, start
        return best and best[1:]
