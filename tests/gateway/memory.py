"""How much memory something takes at most."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def peak() -> Iterator[Callable[[], int]]:
    """Watch what is done in the block; what it gives tells after that how many bytes it took."""
    most = 0
    tracemalloc.start()
    try:
        yield lambda: most
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
