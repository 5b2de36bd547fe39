"""KV blocks: which are held, and which still hold a prefix somebody may ask for again."""

from collections import OrderedDict
from collections.abc import Sequence


def chain(ids: Sequence[int], block_size: int, start: Sequence[int] = ()) -> list[int]:
    """One key per full block of ``ids``; a key stands for its block and all blocks before it.

    ``start`` holds the keys already known, so that a growing sequence is not hashed again.
    """
    keys = list(start)
    for index in range(len(keys), len(ids) // block_size):
        block = tuple(ids[index * block_size : (index + 1) * block_size])
        keys.append(hash((keys[-1] if keys else 0, block)))
    return keys


class BlockPool:
    """Counts blocks held by requests; keeps released ones for their prefix until space is needed.

    Invariant: ``0 <= held`` and ``held + idle <= usable``.
    """

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self.held = 0
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def usage(self) -> float:
        """Share of the usable blocks that is held, 0 to 1."""
        return self.held / self.usable

    @property
    def idle(self) -> int:
        """Blocks nobody holds that still carry a prefix."""
        return len(self._idle)

    def cached(self, keys: Sequence[int]) -> Sequence[int]:
        """The leading keys whose blocks are still there."""
        for index, key in enumerate(keys):
            if key not in self._holders and key not in self._idle:
                return keys[:index]
        return keys

    def take(self, shared: Sequence[int], fresh: int) -> bool:
        """Hold cached blocks and fresh ones; all of them, or none and False."""
        woken = sum(1 for key in shared if key in self._idle)
        if self.held + woken + fresh > self.usable:
            return False
        for key in shared:
            self._idle.pop(key, None)
            self._holders[key] = self._holders.get(key, 0) + 1
        self.held += woken + fresh
        while self.held + len(self._idle) > self.usable:
            self._idle.popitem(last=False)
        return True

    def name(self, key: int) -> bool:
        """A held, nameless block is full: others may share it. False if another has its content."""
        if key in self._holders or key in self._idle:
            return False
        self._holders[key] = 1
        return True

    def release(self, named: Sequence[int], nameless: int) -> None:
        """Give blocks back, those at the end of a sequence to be forgotten first."""
        self.held -= nameless
        for key in reversed(named):
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self._idle[key] = None
                self.held -= 1
