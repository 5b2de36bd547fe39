"""Events that went the short way one after the other, kept in a tenth of their size. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

OVERHEAD = 200  # bytes, about
QUOTE = b'"'


@dataclass(frozen=True)
class Run:
    """Events of one shape with one text each. ``first`` and ``last`` are their numbers.

    ``texts``: escaped as JSON has them, each with the quotation mark behind it. ``ids``: where the
    client gets them, ``tail`` is what stands in front of them and ``tail_behind_ids`` behind.
    """

    id: bytes  # a format of the line that names an event, with its number
    first: int
    last: int
    head: bytes
    texts: bytes
    tail: bytes
    ids: Sequence[int] | None = None
    tail_behind_ids: bytes = b""

    @property
    def size(self) -> int:
        """In bytes, about."""
        return OVERHEAD + len(self.texts) + 4 * len(self.ids or ())

    def parts(self, events: int) -> Iterator["Run"]:
        """Return it in runs of so many events at most."""
        texts = self.texts.split(QUOTE)[:-1]
        for begin in range(0, len(texts), events):
            some = texts[begin : begin + events]
            yield replace(
                self,
                first=self.first + begin,
                last=self.first + begin + len(some) - 1,
                texts=QUOTE.join((*some, b"")),
                ids=None if self.ids is None else self.ids[begin : begin + events],
            )

    def after(self, number: int) -> bytes:
        """Return its events behind this one, as they were given."""
        texts = self.texts.split(QUOTE)[:-1]
        begin = max(0, number + 1 - self.first)
        return b"".join(self._event(place, texts[place]) for place in range(begin, len(texts)))

    def _event(self, place: int, text: bytes) -> bytes:
        ids = b"" if self.ids is None else b"%d" % self.ids[place]
        parts = (self.head, text, self.tail, ids, self.tail_behind_ids)
        return b"".join((self.id % (self.first + place), *parts))
