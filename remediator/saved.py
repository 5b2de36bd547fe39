"""The evidence of one attempt, as the web side shows it."""

from collections.abc import Sequence
from typing import Protocol


class File(Protocol):
    """One file; ``size`` is in bytes."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def size(self) -> int:
        """How large it is."""
        ...


class Saved(Protocol):
    """The files of one attempt."""

    def files(self) -> Sequence[File]:
        """All of them, in the order in which a person reads them. Raises NoExhibitError."""
        ...

    def text(self, name: str) -> str:
        """The text of one of them, without control characters. Raises NoExhibitError."""
        ...
