"""The evidence of one attempt, as the web side shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class NoExhibitError(Exception):
    """There is no such evidence, or it cannot be read; the text is one sentence."""


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


@dataclass(frozen=True)
class NotReadable:
    """Stands in where evidence cannot be read back; ``folder`` is where it was saved."""

    folder: str

    def files(self) -> Sequence[File]:
        """None."""
        return ()

    def text(self, name: str) -> str:
        """Raises NoExhibitError."""
        raise NoExhibitError(f"{name!r} cannot be read back here; it is in {self.folder}")
