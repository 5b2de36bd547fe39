"""The short way: one token's frame of the known shape, from the backend's bytes to the client's.

Nearly all frames of a stream are such. All that is done with them is done here, in one function:
what a frame costs is mostly calls.
"""

from array import array
from collections.abc import Callable
from typing import Protocol

from gateway.answer import Answer
from gateway.bill import BillError
from gateway.outlet import Outlet
from gateway.reply import Connection
from gateway.run import QUOTE, Run
from gateway.shape import Shape

Failed = Callable[[BillError], None]

# The sizes of chunks, as HTTP writes them. What is longer is no frame of one token.
SIZES = tuple(b"%x" % size for size in range(4096))
AROUND = 4  # bytes of a chunk's two line ends
LINE_END = b"\r\n"
END = b"\n\n" + LINE_END  # of an event, and of its chunk


def _size_of_whole(length: int) -> bytes:
    """The size that stands in front of a chunk of this length, with its size and line ends."""
    sizes = (SIZES[size] for size in range(max(0, length - AROUND - 3), length - AROUND))
    return next((size for size in sizes if len(size) + AROUND + int(size, 16) == length), b"none")


# By the length of all that was read: what it begins with if it is one chunk and nothing else.
BEGINNINGS = tuple(_size_of_whole(length) + LINE_END for length in range(len(SIZES)))


class Turn(Protocol):
    """Knows when it is; see gateway.turn.Turn."""

    now: float


class Quick:
    """Of one leg; good from a clean cut on, with nothing held back, until another frame comes.

    ``tokens``: how many the leg has given, to be set before, as ``give_to`` is to be called.
    ``line``: what is told of each token before it is given; see gateway.bill. ``at``: when one was
    given last, in seconds of the turn's clock.
    """

    __slots__ = (
        "_before",
        "_before_size",
        "_behind",
        "_between",
        "_between_size",
        "_connection",
        "_delivered",
        "_failed",
        "_head",
        "_id",
        "_line",
        "_marks",
        "_prompt_tokens",
        "_tail",
        "_tail_behind_ids",
        "_texts",
        "_turn",
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
        self._texts = bytearray()
        self._before, self._between = shape.before, shape.between
        self._before_size, self._between_size = len(shape.before), len(shape.between)
        self._behind = shape.behind + END
        self._prompt_tokens = shape.prompt_tokens
        self._delivered, self._marks = answer.delivered, outlet.marks
        self._whole = answer.cut.whole if answer.cut is not None else set()
        # What the client gets in front of the text; None: what came, which is at hand.
        self._head = None if shape.head == shape.before else shape.head
        self._id = b"\r\n%b%%d\n" % outlet.id.replace(b"%", b"%%")
        self._tail = shape.tail if shape.tail_before_ids is None else shape.tail_before_ids
        self._tail_behind_ids = None if shape.tail_before_ids is None else shape.tail_behind_ids
        if self._tail_behind_ids is None:
            self._tail += END
        else:
            self._tail_behind_ids += END

    def give_to(self, connection: Connection, turn: Turn, failed: Failed) -> None:
        """Say who gets it, and who is told that it could not be written down."""
        self._connection = connection
        self._turn = turn
        self._failed = failed

    def take(self, data: bytes) -> bool:
        """Give the client its chunk for the backend's; tells whether it was one of the kind.

        ``data``: what was read. It is one chunk with one event, or another way has to be gone.
        """
        length = len(data)
        if length >= len(BEGINNINGS):
            return False
        beginning = BEGINNINGS[length]
        start = len(beginning) + self._before_size
        end = data.find(QUOTE, start)  # a text with quotation marks in it is looked into elsewhere
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
            return False
        token = int(written)
        try:
            self._line(token)
        except BillError as error:
            self._failed(error)
            return True
        self.tokens = tokens
        self.at = self._turn.now
        self._whole.add(token)
        delivered, marks = self._delivered, self._marks
        delivered.append(token)
        marks.append(len(delivered))
        self._texts += data[start : end + 1]
        named = self._id % len(marks)
        head = self._head
        if head is None:
            event = named + data[len(beginning) : end] + self._tail
        else:
            event = named + head + data[start:end] + self._tail
        if self._tail_behind_ids is not None:
            event += written + self._tail_behind_ids
        size = len(event) - AROUND
        self._connection.send((SIZES[size] if size < len(SIZES) else b"%x" % size) + event)
        return True

    def run(self) -> Run | None:
        """Return what it has given since this was last asked."""
        texts = bytes(self._texts)
        if not texts:
            return None
        self._texts.clear()
        count, last = texts.count(QUOTE), len(self._marks)
        behind_ids = self._tail_behind_ids
        return Run(
            id=self._id.removeprefix(LINE_END),
            first=last + 1 - count,
            last=last,
            head=self._before if self._head is None else self._head,
            texts=texts,
            tail=self._tail.removesuffix(LINE_END),
            ids=None if behind_ids is None else array("I", self._delivered[-count:]),
            tail_behind_ids=(behind_ids or b"").removesuffix(LINE_END),
        )
