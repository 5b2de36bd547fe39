"""The short way: one token's frame of the known shape, from the backend's bytes to the client's.

Nearly all frames of a stream are such. All that is done with them is done here, in one function:
what a frame costs is mostly calls.
"""

from collections.abc import Callable

from gateway.answer import Answer
from gateway.outlet import Outlet
from gateway.shape import Shape

# The sizes of chunks, as HTTP writes them. What is longer is no frame of one token.
SIZES = tuple(b"%x" % size for size in range(4096))
AROUND = 4  # bytes of a chunk's two line ends


def _size_of_whole(length: int) -> bytes:
    """The size that stands in front of a chunk of this length, with its size and line ends."""
    sizes = (SIZES[size] for size in range(max(0, length - AROUND - 3), length - AROUND))
    return next((size for size in sizes if len(size) + AROUND + int(size, 16) == length), b"none")


# By the length of all that was read: what it begins with if it is one chunk and nothing else.
BEGINNINGS = tuple(_size_of_whole(length) + b"\r\n" for length in range(len(SIZES)))


class Quick:
    """Of one leg; good from a clean cut on, with nothing held back, until another frame comes.

    ``tokens``: how many the leg has given, to be set before. ``line``: what is told of each token
    before it is given; see gateway.bill. ``at``: when one was given last, as it was told.
    """

    __slots__ = (
        "_before",
        "_before_size",
        "_behind",
        "_between",
        "_between_size",
        "_delivered",
        "_event",
        "_gives_ids",
        "_line",
        "_marks",
        "_prompt_tokens",
        "_whole",
        "at",
        "tokens",
    )

    def __init__(
        self, shape: Shape, answer: Answer, outlet: Outlet, line: Callable[[int], None]
    ) -> None:
        self.tokens = 0
        self.at = 0.0
        self._line = line
        self._before, self._between = shape.before, shape.between
        self._before_size, self._between_size = len(shape.before), len(shape.between)
        self._behind = shape.behind + b"\n\n\r\n"
        self._prompt_tokens = shape.prompt_tokens
        self._delivered, self._marks = answer.delivered, outlet.marks
        self._whole = answer.cut.whole if answer.cut is not None else set()
        self._gives_ids = shape.tail_before_ids is not None
        self._event = b"\r\n%b\r\n" % outlet.template(*shape.parts)

    def chunk(self, data: bytes, now: float) -> bytes | None:
        """Return the client's chunk for the backend's; None: nothing was taken.

        ``data``: what was read. It is one chunk with one event, or another way has to be gone.
        ``now``: in seconds of any clock. Raises what ``line`` raises, and nothing was taken then.
        """
        length = len(data)
        if length >= len(BEGINNINGS):
            return None
        beginning = BEGINNINGS[length]
        start = len(beginning) + self._before_size
        end = data.find(b'"', start)  # a text with quotation marks in it is looked into elsewhere
        ids_start = end + self._between_size
        ids_end = data.find(b"]", ids_start)
        written = data[ids_start:ids_end]
        tokens = self.tokens + 1
        if (
            end <= start
            or data[end:ids_start] != self._between
            or data[:start] != beginning + self._before
            or data[ids_end:] != self._behind % (self._prompt_tokens + tokens, tokens)
            or not written.isdigit()
        ):
            return None
        token = int(written)
        self._line(token)
        self.tokens = tokens
        self.at = now
        self._whole.add(token)
        delivered, marks = self._delivered, self._marks
        delivered.append(token)
        marks.append(len(delivered))
        if self._gives_ids:
            event = self._event % (len(marks), data[start:end], written)
        else:
            event = self._event % (len(marks), data[start:end])
        size = len(event) - AROUND
        return (SIZES[size] if size < len(SIZES) else b"%x" % size) + event
